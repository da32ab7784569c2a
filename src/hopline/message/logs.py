"""Loggers whose records untrusted text can neither forge nor flood.

Every logger of Hopline is made here. A filter on the logger itself, not on a handler, makes the arguments of each
record printable and short before any handler sees them, so that ``log.info("node %s is gone", identity)`` is safe with
any handler of the application. A traceback, whose last lines are the text of an error, is indented, so that no line of
it looks like a record.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

from hopline.message.printable import LONGEST_LINES, LONGEST_TEXT, printable, printable_lines


def get_logger(name: str) -> logging.Logger:
    """Return the logger of that name, with every record that it makes printable and bounded."""
    logger = logging.getLogger(name)
    logger.addFilter(_PRINTABLE)
    return logger


class _PrintableRecords(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Make the record printable, and let it pass."""
        if not record.args:
            record.msg = _argument(record.msg)
        elif isinstance(record.args, tuple):
            record.args = tuple(_argument(value) for value in record.args)
        else:
            record.args = {key: _argument(value) for key, value in record.args.items()}
        if record.exc_info and record.exc_info[0] is not None:
            lines = traceback.format_exception(*record.exc_info)
            record.exc_text = printable_traceback("".join(lines))
        return True


_PRINTABLE = _PrintableRecords()


def printable_traceback(text: str, limit: int = LONGEST_LINES) -> str:
    """Return a formatted traceback, printable, bounded and indented: each line of it belongs to the record above."""
    lines = printable_lines(text.rstrip("\n"), limit)
    return "  " + lines.replace("\n", "\n  ")


def _argument(value: Any) -> Any:
    """Return a number as it is, for ``%d`` and its like, and everything else as text."""
    if isinstance(value, int | float) or value is None:
        return value
    if isinstance(value, str | bytes):
        return printable(value, LONGEST_TEXT)
    try:
        return printable(str(value), LONGEST_TEXT)
    except Exception as error:  # logging must not fail
        return f"(a {type(value).__qualname__} whose text cannot be shown: {type(error).__qualname__})"
