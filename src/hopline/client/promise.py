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

    __slots__ = ("_forget", "_outcome", "expectation", "key", "message", "seconds", "tick")

    def __init__(
        self,
        key: int,
        expectation: Expectation,
        message: Message,
        seconds: float,
        outcome: asyncio.Future[Message | HoplineError],
        forget: Callable[[Promise[Any]], None],
    ) -> None:
        self.key = key
        self.expectation = expectation
        self.message = message
        self.seconds = seconds
        self.tick = 0
        # Errors are results of it, and raised to whoever awaits: a promise that nobody awaits is no error.
        self._outcome = outcome
        self._forget = forget

    def take(self, reply: Message) -> bool:
        """Take the answer. Nothing more is expected then."""
        self._forget(self)
        if not self._outcome.done():
            self._outcome.set_result(reply)
        return True

    def fail(self, error: HoplineError) -> None:
        """Give up: no answer will come."""
        self._forget(self)
        if not self._outcome.done():
            self._outcome.set_result(error)

    def expire(self) -> None:
        """Give up because the time is over."""
        self.fail(AnswerTimeoutError(str(self.message.identifier), self.seconds))

    def cancel(self) -> None:
        """Wait no longer, and leave nothing behind."""
        self._forget(self)
        self._outcome.cancel()

    def done(self) -> bool:
        """Tell whether waiting is over."""
        return self._outcome.done()

    def __await__(self) -> Generator[Any, None, Answer]:
        try:
            outcome = yield from self._outcome
        except asyncio.CancelledError:
            self._forget(self)
            raise
        answer: Answer = self.expectation.read(outcome)
        return answer
