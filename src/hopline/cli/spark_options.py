"""What the commands that start Spark share: their options, days, logs, and how they are stopped."""

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

from hopline.cli.console import UsageError
from hopline.message import HoplineError

MasterOption = Annotated[
    str | None,
    typer.Option("--master", help="Where Spark runs: local[2], spark://host:7077, yarn, … Default: local[*]."),
]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="A Spark Connect server: sc://host:15002.")]
FromOption = Annotated[str | None, typer.Option("--from", metavar="DAY", help="First day, as 2026-01-31.")]
ToOption = Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last day, included.")]
MemoryOption = Annotated[str, typer.Option("--memory", help="Memory of Spark's driver.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; once for each.")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show Spark's own log.")]


def day_of(option: str, text: str | None) -> date | None:
    """Return the day that an option names."""
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: expected a day such as 2026-01-31, found {text!r}") from None


def settings_of(texts: list[str]) -> dict[str, str]:
    """Return settings that are given as NAME=VALUE."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--conf: expected NAME=VALUE, found {text!r}")
        settings[name.strip()] = value
    return settings


@contextmanager
def own_logs_only(*, debug: bool) -> Iterator[None]:
    """Show Hopline's warnings; what Spark's parts log when they are stopped is of no use to anybody."""
    if debug:
        yield
        return
    root, own = logging.getLogger(), logging.getLogger("hopline")
    nowhere, shown = logging.NullHandler(), logging.StreamHandler()
    shown.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    root.addHandler(nowhere)
    own.addHandler(shown)
    try:
        yield
    finally:
        own.removeHandler(shown)
        root.removeHandler(nowhere)


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """Let a polite end (SIGTERM) tidy up as Ctrl-C does, and whatever Spark makes of either be no error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    is_asked = False

    def end(_number: int, _frame: Any) -> None:
        nonlocal is_asked
        if not is_asked:
            is_asked = True
            os.write(sys.stderr.fileno(), b"\nstopping: this may take some seconds\n")
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except HoplineError as error:
        if is_asked:  # and Spark fell over it
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
