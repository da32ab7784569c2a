"""Records of Hopline's loggers are printable and bounded for every handler."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopline.message import LONGEST_LINES, get_logger

SOURCE = Path(__file__).parents[2] / "src"
HOSTILE = "node\n2026-01-01 00:00:00 WARNING forged \x1b[2J\u202e"
HUGE = "x" * 20_000_000


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Give what a handler writes that knows nothing of Hopline."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("hopline.test_logs")
    logger.addHandler(handler)
    logger.propagate = False
    yield stream
    logger.removeHandler(handler)
    logger.propagate = True


def test_an_argument_stays_on_its_line(written: io.StringIO) -> None:
    log = get_logger("hopline.test_logs")
    log.warning("%s of %d at %.1f", HOSTILE, 3, 0.5)
    log.warning("%(name)s", {"name": HOSTILE.encode()})
    log.warning(HOSTILE)
    lines = written.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].endswith(" of 3 at 0.5")
    assert all(line.startswith("WARNING node\\n2026") and line.isprintable() for line in lines)


def test_a_line_is_no_longer_than_anybody_reads(written: io.StringIO) -> None:
    log = get_logger("hopline.test_logs")
    log.warning("%s %s", HUGE, HUGE.encode())
    log.warning(HUGE)
    assert len(written.getvalue()) < 20_000


def test_a_traceback_cannot_pass_for_records_nor_fill_a_disk(written: io.StringIO) -> None:
    log = get_logger("hopline.test_logs")
    for text in (HOSTILE, HUGE, HUGE.replace("x", "\n")):
        try:
            raise ValueError(text)
        except ValueError:
            log.exception("it failed")
    lines = written.getvalue().splitlines()
    assert [line for line in lines if not line.startswith("  ")] == ["ERROR it failed"] * 3
    assert "  ValueError: node" in lines
    assert all(line.isprintable() for line in lines)
    assert len(written.getvalue()) < 3 * 4 * LONGEST_LINES


def test_a_value_that_cannot_be_told_fails_nobody(written: io.StringIO) -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    get_logger("hopline.test_logs").warning("%s", Mute())
    assert "whose text cannot be shown: RuntimeError" in written.getvalue()


def test_every_logger_of_hopline_is_made_so() -> None:
    """Except where the levels and handlers of loggers are set."""
    own = re.compile(r"logging\.getLogger\((?!\)|\"hopline\"\)|\"py4j)")
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if own.search(path.read_text(encoding="utf-8")) is not None
    }
    assert found == {"hopline/message/logs.py"}
