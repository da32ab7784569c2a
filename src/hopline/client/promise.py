"""The one answer that a caller waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from hopline.client.expectation import Expectation
from hopline.message import AnswerTimeoutError, HoplineError, Message

Answer = TypeVar("Answer")


class Promise(Generic[Answer]):
    """Await it to get the answer; the first to come wins. One that is no longer of interest is to be cancelled."""

    __slots__ = (
        "_forget",
        "_is_cancelled",
        "_loop",
        "_outcome",
        "_waiter",
        "expectation",
        "key",
        "message",
        "seconds",
        "tick",
    )

    def __init__(
        self,
        key: int,
        expectation: Expectation,
        message: Message,
        seconds: float,
        loop: asyncio.AbstractEventLoop,
        forget: Callable[[Promise[Any]], None],
    ) -> None:
        self.key = key
        self.expectation = expectation
        self.message = message
        self.seconds = seconds
        self.tick = 0
        self._loop = loop
        self._forget = forget
        self._is_cancelled = False
        # Errors are outcomes too, and raised to whoever awaits: a promise that nobody awaits is no error.
        self._outcome: Message | HoplineError | None = None
        self._waiter: asyncio.Future[None] | None = None  # made only for one who has to wait

    def take(self, reply: Message) -> bool:
        """Take the answer. Nothing more is expected then."""
        self._settle(reply)
        return True

    def fail(self, error: HoplineError) -> None:
        """Give up: no answer will come."""
        self._settle(error)

    def expire(self) -> None:
        """Give up because the time is over."""
        self._settle(AnswerTimeoutError(str(self.message.identifier), self.seconds))

    def _settle(self, outcome: Message | HoplineError) -> None:
        self._forget(self)
        if self._outcome is None:
            self._outcome = outcome
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def cancel(self) -> None:
        """Wait no longer, and leave nothing behind."""
        self._forget(self)
        self._is_cancelled = True
        if self._waiter is not None:
            self._waiter.cancel()

    def done(self) -> bool:
        """Tell whether waiting is over."""
        return self._is_cancelled or self._outcome is not None

    def __await__(self) -> Generator[Any, None, Answer]:
        if self._is_cancelled:
            raise asyncio.CancelledError
        if self._outcome is None:
            if self._waiter is None:
                self._waiter = self._loop.create_future()
            try:
                yield from self._waiter
            except asyncio.CancelledError:
                self._forget(self)
                raise
        assert self._outcome is not None  # noqa: S101 - waiting is over
        answer: Answer = self.expectation.read(self._outcome)
        return answer
