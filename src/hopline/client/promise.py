"""Promises: the one answer that a caller waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from hopline.client.reply_spec import Read, ReplySpec, as_it_is
from hopline.message import AnswerTimeoutError, HoplineError, Message
from hopline.routing import Delivery

Answer = TypeVar("Answer")


def _raise(error: Any) -> None:
    raise error


class Promise(msgspec.Struct, Generic[Answer], eq=False):
    """An answer to be awaited. Of several replies the first one counts. Cancel a promise that is not awaited."""

    key: int
    reply_spec: ReplySpec
    delivery: Delivery  # of the request
    seconds: float
    deadline: float
    _forget: Callable[[int, None], object]  # by its key
    tick: int = 0
    _is_cancelled: bool = False
    # An error is an outcome too: it is raised when the promise is awaited, and nowhere if it never is.
    _outcome: object = None
    _read: Read = as_it_is  # converts the outcome to the answer
    _waiter: asyncio.Future[None] | None = None  # created only when somebody has to wait

    @property
    def message(self) -> Message:
        """The request."""
        return self.delivery.message

    def take(self, outcome: object, read: Read) -> bool:
        """Accept the answer, and stop waiting for others."""
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
        """Fail the promise: no answer will come."""
        self.take(error, _raise)

    def expire(self, reason: HoplineError | None = None) -> None:
        """Fail the promise because its time has passed. A known reason becomes the `__cause__` of the timeout."""
        error = AnswerTimeoutError(str(self.delivery.identifier), self.seconds)
        error.__cause__ = reason
        self.fail(error)

    def leave(self) -> None:
        """Stop waiting for an answer."""
        self._forget(self.key, None)

    def cancel(self) -> None:
        """Stop waiting, and cancel the task that awaits the promise."""
        self.leave()
        self._is_cancelled = True
        if self._waiter is not None:
            self._waiter.cancel()

    def __repr__(self) -> str:
        return f"<Promise {self.key} of the answer to {self.delivery.identifier}>"

    def done(self) -> bool:
        """Return whether there is an answer or an error, or the promise was cancelled."""
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


OnOver: TypeAlias = Callable[[Delivery, object, Read], None]
"""Called with a request when its wait is over, with the outcome and how it is read."""


class TimedPromise(Promise[Answer], eq=False):
    """A promise that reports when it is over: answered or failed, not cancelled."""

    on_over: OnOver | None = None

    def take(self, outcome: object, read: Read) -> bool:
        """Accept the answer, and report it."""
        is_first = self._outcome is None and not self._is_cancelled
        if is_first and self.on_over is not None:
            self.on_over(self.delivery, outcome, read)
        return super().take(outcome, read)
