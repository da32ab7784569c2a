"""A hub as the handler of a message sees it: its requests inherit what is left of that message's lifetime.

Whoever asked the handler waits until a deadline. An answer that the handler itself gets later than that is of no use to
anybody, so it waits no longer either, and neither do those that it asks: their messages carry what is left as their
lifetime. Three things are exempt: a request with a `timeout` of its own, a `Message` with a lifetime of its own, and
what wants no answer (one-way messages, broadcasts, and the handling of what is only confirmed by a receipt), because
that has to be done whether or not somebody still waits.
"""

from __future__ import annotations

from typing import Any

from hopline.client.expectation import Callback
from hopline.client.hub import MessageHub, Timeout, ticks_of
from hopline.client.promise import Promise
from hopline.client.stream import Stream
from hopline.message import AnswerTimeoutError, Message, payload_type
from hopline.routing import NO_DEADLINE


class HandlerHub(MessageHub):
    """A view of a hub for the handling of one message. The hub keeps all state: promises, streams, counts."""

    # Deliberately without MessageHub.__init__: what it would set is looked up in the hub itself, by __getattr__.
    def __init__(self, hub: MessageHub, deadline: float) -> None:
        self._hub = hub
        self._deadline = deadline  # of the message that is handled, by the node's clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hub, name)

    def _promise(self, content: object, callback: Callback | None, timeout: Timeout) -> Promise[Any]:
        left = self._inherited(content, timeout)
        if left is None:
            return self._hub._promise(content, callback, timeout)
        return self._hub._promise(content if callback is None else _limited(content, left), callback, left)

    def stream(
        self, content: object, *, callback: Callback, timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Any]:
        """Broadcast, and give the answers as they come, until the time is over or `limit` replies came."""
        left = self._inherited(content, timeout)
        if left is None:
            return self._hub.stream(content, callback=callback, timeout=timeout, limit=limit)
        return self._hub.stream(_limited(content, left), callback=callback, timeout=left, limit=limit)

    def _inherited(self, content: object, timeout: Timeout) -> float | None:
        """Return the seconds that are left, or None where there is no deadline, or the caller set another.

        Raise `AnswerTimeoutError` if none are.
        """
        if timeout is not None or self._deadline == NO_DEADLINE:
            return None
        if isinstance(content, Message):
            if content.ttl_ticks:
                return None
            identifier = content.identifier
        else:
            identifier = payload_type(content.__class__).identifier
        left = self._deadline - self._hub._clock()
        if left <= 0:
            raise AnswerTimeoutError(str(identifier), 0.0)
        return left


def _limited(content: object, seconds: float) -> object:
    """Return a message with this lifetime; a payload gets it from its timeout."""
    return content.clone(ttl_ticks=ticks_of(seconds)) if isinstance(content, Message) else content
