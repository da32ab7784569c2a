"""Streams: the answers of many receivers, in the order of their arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from hopline.client.reply_spec import Read, ReplySpec
from hopline.message import ActorError, HoplineError, Message, PayloadError
from hopline.routing import NO_DEADLINE

Answer = TypeVar("Answer")

STREAM_CAPACITY = 10_000  # answers that may wait to be read
ERRORS_KEPT = 100


class StreamState:
    """A stream as the hub knows it. Separate from `Stream`, so that a stream that its reader drops can be collected."""

    __slots__ = ("_forget", "_wake", "arrived", "deadline", "is_over", "key", "message", "reply_spec", "tick")

    def __init__(
        self, key: int, reply_spec: ReplySpec, message: Message, forget: Callable[[int, None], object]
    ) -> None:
        self._forget = forget
        self.key = key
        self.reply_spec = reply_spec
        self.message = message
        self.tick = 0
        self.deadline = NO_DEADLINE  # until it starts
        self.arrived: deque[tuple[object, Read] | HoplineError] = deque()
        self.is_over = False
        self._wake: asyncio.Future[None] | None = None

    def take(self, reply: object, read: Read) -> bool:
        """Keep an answer for the reader, or return False if too many wait already."""
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
        """End the stream because its time has passed."""
        self.is_over = True
        self._forget(self.key, None)
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def next(self) -> tuple[object, Read] | HoplineError | None:
        """Wait for the next answer or error; return None at the end."""
        while not self.arrived:
            if self.is_over:
                return None
            if self._wake is None or self._wake.done():
                self._wake = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._wake)  # several tasks may read
        return self.arrived.popleft()


class Stream(Generic[Answer]):
    """The answers to a broadcast, for ``async for``. Ends when its time has passed or after `limit` replies.

    An actor that fails does not end the stream: its error is appended to `errors`. If the message reaches no receiver
    at all, iterating raises `DeliveryError`.
    """

    def __init__(
        self,
        state: StreamState,
        start: Callable[[StreamState], Awaitable[None]],
        forget: Callable[[int, None], object],
        limit: int | None,
    ) -> None:
        self.errors: list[ActorError | PayloadError] = []
        self._state = state
        self._start: Callable[[StreamState], Awaitable[None]] | None = start
        self._forget = forget
        self._remaining = -1 if limit is None else limit  # replies; negative for no limit

    @property
    def key(self) -> int:
        """The callback key that its answers carry."""
        return self._state.key

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Answer:
        if self._start is not None and self._remaining:
            start, self._start = self._start, None
            try:
                await start(self._state)
            except BaseException:
                self.close()
                raise
        while self._remaining:
            arrived = await self._state.next()
            if arrived is None:
                break
            self._remaining -= 1
            try:
                if isinstance(arrived, HoplineError):
                    raise arrived
                reply, read = arrived
                answer: Answer = read(reply)
                return answer
            except (ActorError, PayloadError) as error:
                if len(self.errors) < ERRORS_KEPT:
                    self.errors.append(error.with_traceback(None))  # a traceback would keep this very stream alive
            except HoplineError:
                self.close()
                raise
        self.close()
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop receiving answers."""
        self._remaining = 0
        self._forget(self._state.key, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._forget(self._state.key, None)
