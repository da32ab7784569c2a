"""Asking again after an attempt failed: when, how often, and how the attempts are told apart.

All attempts are one flow: they have the same correlation id, and the number of the attempt tells them apart
(`hopline.message.attempts`).

The timeout of `ask` is the deadline of all attempts and the pauses between them. An attempt waits, and its message
lives, for what is left of it, or for `attempt_timeout` if that is shorter. A pause that would outlast the deadline is
not begun: the caller gets the last error at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec

from hopline.checks import COUNT, DURATION_OR_NONE, require, require_numbers
from hopline.client.lifetimes import seconds_of, ticks_of
from hopline.message import AnswerTimeoutError, DeliveryError, Message, numbered
from hopline.routing import NO_DEADLINE


class Retry(msgspec.Struct, frozen=True):
    """How often `ask` asks again. An attempt that failed may have been handled: retry only what may be done twice.

    >>> retry = Retry(attempts=4, backoff=0.1)
    >>> [retry.pause_after(attempt) for attempt in (1, 2, 3)]
    [0.1, 0.2, 0.4]
    """

    attempts: int = 3
    """Number of attempts at the most, with the first one."""
    backoff: float = 0.1
    """Seconds before the second attempt. The pause doubles with each further one."""
    on: tuple[type[Exception], ...] = (DeliveryError, AnswerTimeoutError)
    """The errors after which to ask again. Any other one is raised at once."""
    attempt_timeout: float | timedelta | None = None
    """Seconds that one attempt may wait. Default: all that is left of the timeout."""

    def __post_init__(self) -> None:
        require_numbers(self, {"attempts": COUNT, "backoff": DURATION_OR_NONE}, "retry.")
        kinds: Any = self.on
        are_errors = isinstance(kinds, tuple) and all(_is_error(kind) for kind in kinds)
        require(are_errors, "retry.on", "a tuple of exception classes", kinds)

    def pause_after(self, attempt: int) -> float:
        """Return the seconds between an attempt, counted from 1, and the next one."""
        return math.ldexp(self.backoff, attempt - 1)


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


async def ask_again(
    send: Callable[..., Awaitable[Any]],
    message: Message,
    callback: Any,
    retry: Retry,
    seconds: float,
    clock: Callable[[], float],
) -> Any:
    """Send a request until it is answered, and return the answer.

    Args:
        send: Sends one attempt, as `MessageHub.send` does.
        message: The request.
        callback: The kind of its answer.
        retry: When to send it again.
        seconds: How long to wait in all.
        clock: The node's clock.
    """
    deadline = clock() + seconds
    longest = NO_DEADLINE if retry.attempt_timeout is None else seconds_of(retry.attempt_timeout)
    attempt = 1
    while True:
        remaining = min(longest, max(0.0, deadline - clock()))  # zero in the first attempt only
        request = numbered(message, attempt).clone(ttl_ticks=ticks_of(remaining))
        try:
            return await send(request, callback=callback, timeout=remaining)
        except retry.on:
            pause = retry.pause_after(attempt)
            if attempt >= retry.attempts or clock() + pause >= deadline:
                raise
            await asyncio.sleep(pause)
            if clock() >= deadline:  # the loop was busy: no time is left for another attempt
                raise
        attempt += 1
