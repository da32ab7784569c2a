"""Which message is being handled here: for log records, and for whatever else needs to know its flow."""

from __future__ import annotations

from contextvars import ContextVar

from hopline.message import Message

current_message: ContextVar[Message | None] = ContextVar("hopline_current_message", default=None)
