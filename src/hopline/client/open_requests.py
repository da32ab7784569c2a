"""The requests of a hub that wait for answers: promises and streams, by the callback key that their replies carry.

Most requests wait for the node's `request_timeout`: these are kept in a `Line`, which needs one timer for all of them.
Requests with a timeout of their own, and streams, are kept beside it, with `Deadlines`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hopline.client.deadlines import Deadlines, Line
from hopline.client.promise import Promise
from hopline.client.reply_spec import error_of
from hopline.client.stream import StreamState
from hopline.message import DeliveryError, HoplineError, Message, WireFormat
from hopline.routing import Delivery, Outcome

OpenRequest: TypeAlias = Promise[Any] | StreamState

# Seconds by which a lifetime may end on another node before the caller's own time has passed: it travels in whole
# ticks, and clocks run at slightly different rates.
_EARLY = 0.005


class OpenRequests:
    """The promises and streams of one hub that are open.

    A promise that waits for the `request_timeout` is written into `default` in place, and `line.set_timer` is called
    unless `line.has_timer`; `forget_default` removes it. These run for most requests, and cost no call here.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deadlines: Deadlines, clock: Callable[[], float]) -> None:
        self.line: Line[Promise[Any]] = Line(loop, clock)
        self.default = self.line.members
        self.forget_default = self.default.pop
        self.others: dict[int, OpenRequest] = {}  # with a deadline of their own
        self._deadlines = deadlines

    def __len__(self) -> int:
        return len(self.default) + len(self.others)

    def __iter__(self) -> Iterator[OpenRequest]:
        return itertools.chain(self.default.values(), self.others.values())

    def add(self, request: OpenRequest, deadline: float) -> None:
        """Add a request that has its own deadline."""
        self.others[request.key] = request
        request.deadline = deadline
        request.tick = self._deadlines.add(deadline, request)

    def forget(self, key: int, nothing: None) -> None:
        """Remove a request that has its own deadline. It does no harm to call it twice."""
        request = self.others.pop(key, nothing)
        if request is not None:
            self._deadlines.discard(request.tick, request)

    def other_of(self, reply: Delivery) -> OpenRequest | None:
        """Return the request that a reply belongs to, if it is not one of the default ones.

        Replies in the first format have no key: they belong to the request of their flow that waits for their kind.
        """
        message = reply.message
        request = self.others.get(message.callback_key)
        if request is None and message.wire_format is WireFormat.FIRST:
            for candidate in self:
                is_of_flow = candidate.message.correlation_id == message.correlation_id
                if is_of_flow and reply.identifier in candidate.reply_spec.readers:
                    return candidate
        return request

    def fail_all(self, error: HoplineError) -> int:
        """Fail every request, and drop their deadlines. Return how many there were."""
        unanswered = list(self)
        for request in unanswered:
            request.fail(type(error)(*error.args))  # an error of its own: a traceback grows with every raise
        self.line.close()
        return len(unanswered)


def is_timeout(failure: Message, request: OpenRequest, now: float) -> bool:
    """Return whether a failure report only says that the time of the caller of a request has passed.

    A message lives as long as its sender waits. The node that holds it at the end reports it as expired, and that
    report races with the timer of the caller. The caller gets the same error whichever comes first.
    """
    remaining = request.deadline - now
    if remaining > _EARLY:
        return False
    error = error_of(failure)
    if not isinstance(error, DeliveryError):
        return False
    return remaining <= (_EARLY if error.outcome == Outcome.EXPIRED else 0.0)
