"""The one answer that a caller waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import msgspec

from hopline.client.expectation import Expectation, Read, as_it_is
from hopline.message import AnswerTimeoutError, HoplineError, Message
from hopline.routing import Delivery

Answer = TypeVar("Answer")


def _raise(error: Any) -> None:
    raise error


class Promise(msgspec.Struct, Generic[Answer], eq=False):
    """Await it to get the answer; the first to come wins. One that is no longer of interest is to be cancelled."""

    key: int
    expectation: Expectation
    delivery: Delivery  # of what was asked
    seconds: float
    deadline: float
    _forget: Callable[[int, None], object]  # by its key
    tick: int = 0
    _is_cancelled: bool = False
    # Errors are outcomes too, and raised to whoever awaits: a promise that nobody awaits is no error.
    _outcome: object = None
    _read: Read = as_it_is  # makes the answer of the outcome
    _waiter: asyncio.Future[None] | None = None  # made only for one who has to wait

    @property
    def message(self) -> Message:
        """What was asked."""
        return self.delivery.message

    def take(self, outcome: object, read: Read) -> bool:
        """Take the answer. Nothing more is expected then."""
        forget = self._forget
        forget(self.key, None)
        if self._outcome is None:
            self._outcome = outcome
            if read is not as_it_is:
                self._read = read
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
        return True

    def fail(self, error: HoplineError) -> None:
        """Give up: no answer will come."""
        self.take(error, _raise)

    def expire(self, reason: HoplineError | None = None) -> None:
        """Give up because the time is over; a reason that is known becomes the cause of the timeout."""
        error = AnswerTimeoutError(str(self.delivery.identifier), self.seconds)
        error.__cause__ = reason
        self.fail(error)

    def leave(self) -> None:
        """See to it that nothing more is expected."""
        self._forget(self.key, None)

    def cancel(self) -> None:
        """Wait no longer, and leave nothing behind."""
        self.leave()
        self._is_cancelled = True
        if self._waiter is not None:
            self._waiter.cancel()

    def __repr__(self) -> str:
        return f"<Promise {self.key} of the answer to {self.delivery.identifier}>"

    def done(self) -> bool:
        """Tell whether waiting is over."""
        return self._is_cancelled or self._outcome is not None

    def __await__(self) -> Generator[Any, None, Answer]:
        if self._is_cancelled:
            raise asyncio.CancelledError
        if self._outcome is None:
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_future()
            try:
                yield from self._waiter
            except asyncio.CancelledError:
                self.leave()
                raise
        read = self._read
        answer: Answer = read(self._outcome)
        return answer
