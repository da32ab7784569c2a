"""The hub of a handler: its requests inherit the remaining lifetime of the message that is handled.

The caller of the handler waits until a deadline. An answer that reaches the handler later is of no use, so the handler
waits no longer either, and its requests carry the remaining time as their lifetime. Exempt are requests with a
`timeout` of their own, messages with a lifetime of their own, and messages without an answer (one-way messages,
broadcasts, and the handling of what is only confirmed by a receipt), which have to be handled in any case.
"""

from __future__ import annotations

from typing import Any

from hopline.client.asking import Timeout
from hopline.client.hub import MessageHub
from hopline.client.lifetimes import ticks_of
from hopline.client.promise import Promise
from hopline.client.reply_spec import Callback, callback_of
from hopline.client.stream import Stream
from hopline.message import AnswerTimeoutError, Message, payload_type
from hopline.routing import NO_DEADLINE


class HandlerHub(MessageHub):
    """A view of a hub during the handling of one message. All state (promises, streams, counts) is the hub's."""

    # Deliberately without MessageHub.__init__: __getattr__ looks up in the hub what it would set.
    def __init__(self, hub: MessageHub, deadline: float) -> None:
        self._hub = hub
        self._deadline = deadline  # of the message that is handled, by the node's clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hub, name)

    def _promise(self, content: object, callback: Callback | None, timeout: Timeout) -> Promise[Any]:
        seconds = self._inherited(content, timeout)
        if seconds is None:
            return self._hub._promise(content, callback, timeout)
        return self._hub._promise(content if callback is None else _limited(content, seconds), callback, seconds)

    def _time_to_wait(self, message: Message, timeout: Timeout) -> float:
        seconds = self._inherited(message, timeout)
        return self._hub._time_to_wait(message, timeout) if seconds is None else seconds

    def stream(
        self, content: Any, *, callback: Callback | None = None, timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Any]:
        """Broadcast, and return the answers as they come. See `MessageHub.stream`."""
        kinds: Any = callback_of(content) if callback is None else callback
        seconds = self._inherited(content, timeout)
        if seconds is None:
            return self._hub.stream(content, callback=kinds, timeout=timeout, limit=limit)
        return self._hub.stream(_limited(content, seconds), callback=kinds, timeout=seconds, limit=limit)

    def _inherited(self, content: object, timeout: Timeout) -> float | None:
        """Return the remaining seconds, or None if there is no deadline, or the request has its own.

        Raises:
            AnswerTimeoutError: No time remains.
        """
        if timeout is not None or self._deadline == NO_DEADLINE:
            return None
        if isinstance(content, Message):
            if content.ttl_ticks:
                return None
            identifier = content.identifier
        else:
            identifier = payload_type(content.__class__).identifier
        remaining = self._deadline - self._hub._clock()
        if remaining <= 0:
            raise AnswerTimeoutError(str(identifier), 0.0)
        return remaining


def _limited(content: Any, seconds: float) -> Any:
    """Return a message with this lifetime. A payload stays as it is: its timeout becomes its lifetime."""
    return content.clone(ttl_ticks=ticks_of(seconds)) if isinstance(content, Message) else content
