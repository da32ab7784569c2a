"""The answers of many, one after the other, as they come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from hopline.client.expectation import Expectation, Read
from hopline.message import ActorError, HoplineError, Message, PayloadError
from hopline.routing import NO_DEADLINE

Answer = TypeVar("Answer")

STREAM_CAPACITY = 10_000  # answers that may wait for their reader
ERRORS_KEPT = 100


class Gathering:
    """What the hub knows of a stream. The stream itself may be dropped by its reader at any time."""

    __slots__ = ("_forget", "_wake", "arrived", "deadline", "expectation", "is_over", "key", "message", "tick")

    def __init__(
        self, key: int, expectation: Expectation, message: Message, forget: Callable[[int, None], object]
    ) -> None:
        self._forget = forget
        self.key = key
        self.expectation = expectation
        self.message = message
        self.tick = 0
        self.deadline = NO_DEADLINE  # until it starts
        self.arrived: deque[tuple[object, Read] | HoplineError] = deque()
        self.is_over = False
        self._wake: asyncio.Future[None] | None = None

    def take(self, reply: object, read: Read) -> bool:
        """Keep an answer for the reader, unless too many wait already."""
        if len(self.arrived) >= STREAM_CAPACITY:
            return False
        self.arrived.append((reply, read))
        self._wake_reader()
        return True

    def fail(self, error: HoplineError) -> None:
        """End the stream with an error."""
        self.arrived.append(error)
        self.expire()

    def expire(self, reason: HoplineError | None = None) -> None:  # noqa: ARG002 - time is how a stream ends anyway
        """End the stream: its time is over."""
        self.is_over = True
        self._forget(self.key, None)
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def next(self) -> tuple[object, Read] | HoplineError | None:
        """Wait for what comes next; None at the end."""
        while not self.arrived:
            if self.is_over:
                return None
            if self._wake is None or self._wake.done():
                self._wake = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._wake)  # several may read
        return self.arrived.popleft()


class Stream(Generic[Answer]):
    """Iterate over it with ``async for``; it ends when its time is over or `limit` replies came.

    An actor that fails does not end it: its error goes to `errors`, and the answers of the others go on. When the
    message reached nobody at all, that is raised.
    """

    def __init__(
        self,
        gathering: Gathering,
        start: Callable[[Gathering], Awaitable[None]],
        forget: Callable[[int, None], object],
        limit: int | None,
    ) -> None:
        self.errors: list[ActorError | PayloadError] = []
        self._gathering = gathering
        self._start: Callable[[Gathering], Awaitable[None]] | None = start
        self._forget = forget
        self._left = -1 if limit is None else limit

    @property
    def key(self) -> int:
        """The callback key that its answers carry."""
        return self._gathering.key

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Answer:
        if self._start is not None and self._left:
            start, self._start = self._start, None
            try:
                await start(self._gathering)
            except BaseException:
                self.close()
                raise
        while self._left:
            arrived = await self._gathering.next()
            if arrived is None:
                break
            self._left -= 1
            try:
                if isinstance(arrived, HoplineError):
                    raise arrived
                reply, read = arrived
                answer: Answer = read(reply)
                return answer
            except (ActorError, PayloadError) as error:
                if len(self.errors) < ERRORS_KEPT:
                    self.errors.append(error.with_traceback(None))  # which would hold on to this very stream
            except HoplineError:
                self.close()
                raise
        self.close()
        raise StopAsyncIteration

    def close(self) -> None:
        """Take no more answers."""
        self._left = 0
        self._forget(self._gathering.key, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._forget(self._gathering.key, None)
