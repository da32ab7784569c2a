"""Options, logging and signals of the commands that start Spark."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Annotated, Any

import typer

from hopline.cli.errors import UsageError
from hopline.message import HoplineError

MasterOption = Annotated[
    str | None,
    typer.Option("--master", help="Where Spark runs: local[2], spark://host:7077, yarn, … Default: local[*]."),
]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="A Spark Connect server: sc://host:15002.")]
FromOption = Annotated[str | None, typer.Option("--from", metavar="DAY", help="First day, such as 2026-01-31.")]
ToOption = Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last day, inclusive.")]
MemoryOption = Annotated[str, typer.Option("--memory", help="Memory of Spark's driver.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show Spark's own log.")]


def day_of(option: str, text: str | None) -> date | None:
    """Parse the day of an option."""
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: expected a day such as 2026-01-31, found {text!r}") from None


def settings_of(texts: list[str]) -> dict[str, str]:
    """Parse settings of the form NAME=VALUE."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--conf: expected NAME=VALUE, found {text!r}")
        settings[name.strip()] = value
    return settings


@contextmanager
def own_logs_only(*, debug: bool) -> Iterator[None]:
    """Show the warnings of Hopline only, unless `debug`: PySpark logs errors of its own when it is stopped."""
    if debug:
        yield
        return
    root, own = logging.getLogger(), logging.getLogger("hopline")
    silent, printing = logging.NullHandler(), logging.StreamHandler()
    printing.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    root.addHandler(silent)
    own.addHandler(printing)
    try:
        yield
    finally:
        own.removeHandler(printing)
        root.removeHandler(silent)


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, and errors that Spark raises after either as an interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    is_interrupted = False

    def end(_number: int, _frame: Any) -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            os.write(sys.stderr.fileno(), b"\nstopping: this may take a few seconds\n")
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except HoplineError as error:
        if is_interrupted:  # Spark failed because of it
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
