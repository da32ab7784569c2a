"""Log records with the correlation id of their flow."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from hopline.actors.flow import current_message
from hopline.message import NO_FLOW, Message, get_logger, printable_name


def correlation_text(message: Message | None) -> str:
    """Return the correlation id of a message for display; "-" if it has no flow."""
    if message is None or message.correlation_id in (b"", NO_FLOW):
        return "-"
    return printable_name(message.correlation_id)


class CorrelationFilter(logging.Filter):
    """Adds `correlation_id` to every log record: that of the message that was being handled.

    Add it to a logging handler to use ``%(correlation_id)s`` in its format, for records of any logger.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the field, and let every record pass."""
        if not hasattr(record, "correlation_id"):
            message = current_message.get()
            record.correlation_id = correlation_text(message)
        return True


class _FlowLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        message = kwargs.pop("flow", None) or current_message.get()
        extra = dict(kwargs.get("extra") or {})
        extra["correlation_id"] = correlation_text(message)
        kwargs["extra"] = extra
        return msg, kwargs


def flow_log(name: str) -> logging.LoggerAdapter[logging.Logger]:
    """Return a logger whose records have a `correlation_id`; ``flow=message`` sets the flow explicitly."""
    logger = get_logger(name)
    return _FlowLog(logger, {})
