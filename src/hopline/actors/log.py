"""Log records that say which flow they belong to."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from hopline.actors.flow import current_message
from hopline.message import NO_FLOW, Message, get_logger, printable_name


def correlation_text(message: Message | None) -> str:
    """Give the correlation id of a message as logs show it; "-" where there is no flow."""
    if message is None or message.correlation_id in (b"", NO_FLOW):
        return "-"
    return printable_name(message.correlation_id)


class CorrelationFilter(logging.Filter):
    """Gives every record a `correlation_id`: that of the message being handled where the record was made.

    Add it to a logging handler, and ``%(correlation_id)s`` can stand in the format of any logger's records.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the field, and let every record pass."""
        if not hasattr(record, "correlation_id"):
            record.correlation_id = correlation_text(current_message.get())
        return True


class _FlowLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        message = kwargs.pop("flow", None) or current_message.get()
        kwargs["extra"] = {**(kwargs.get("extra") or {}), "correlation_id": correlation_text(message)}
        return msg, kwargs


def flow_log(name: str) -> logging.LoggerAdapter[logging.Logger]:
    """Make a logger whose records all say their `correlation_id`; ``flow=message`` names the flow outright."""
    return _FlowLog(get_logger(name), {})
