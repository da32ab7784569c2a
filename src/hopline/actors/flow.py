"""The message that is being handled in the current context, for log records and others that need its flow."""

from __future__ import annotations

from contextvars import ContextVar

from hopline.message import Message

current_message: ContextVar[Message | None] = ContextVar("hopline_current_message", default=None)
