"""Logging of the commands that run until they are stopped: text or JSON lines on standard error."""

from __future__ import annotations

import copy
import json
import logging
import sys
from enum import StrEnum

from hopline.actors import CorrelationFilter
from hopline.message import printable, printable_traceback

_TEXT_FORMAT = "%(asctime)s %(levelname)s %(correlation_id)s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _PrintableFormatter(logging.Formatter):
    """Format a record as one line, with its traceback indented below. Escapes what other libraries log, too."""

    def format(self, record: logging.LogRecord) -> str:
        escaped = copy.copy(record)  # other handlers get the original
        escaped.msg, escaped.args = printable(record.getMessage()), None
        if escaped.exc_info and not escaped.exc_text:
            escaped.exc_text = printable_traceback(self.formatException(escaped.exc_info))
        return super().format(escaped)


class _JsonFormatter(_PrintableFormatter):
    """Format a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        document = {
            "time": f"{seconds}.{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "correlation_id": getattr(record, "correlation_id", "-"),
            "message": printable(record.getMessage()),
        }
        if record.exc_info:
            document["exception"] = record.exc_text or printable_traceback(self.formatException(record.exc_info))
        return json.dumps(document)


def set_up_logs(level: LogLevel, *, as_json: bool) -> None:
    """Log to standard error, each record with the correlation id of its flow."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(CorrelationFilter())
    handler.setFormatter(_JsonFormatter() if as_json else _PrintableFormatter(_TEXT_FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.value.upper())
