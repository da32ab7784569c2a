"""The context of a handler: its message, and ways to send further ones."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hopline.actors.results import result
from hopline.message import AnyPayload, ArgumentError, Message, NoRoomError, Version
from hopline.routing import NO_DEADLINE, delivery_of

if TYPE_CHECKING:
    from hopline.actors.runtime import ActorRuntime

Answer = TypeVar("Answer")


class HandlerContext:
    """The message that is being handled, and ways to send results before the handler returns."""

    __slots__ = ("_blocking", "_deadline", "_runtime", "message")

    def __init__(
        self, message: Message, runtime: ActorRuntime, *, blocking: bool = False, deadline: float = NO_DEADLINE
    ) -> None:
        self.message = message
        self._runtime = runtime
        self._blocking = blocking
        self._deadline = deadline  # of the message, by the node's clock

    @property
    def correlation_id(self) -> bytes:
        """The flow that the message belongs to."""
        return self.message.correlation_id

    async def send(
        self, content: AnyPayload, *, partition: str | bytes | None = None, version: Version | None = None
    ) -> None:
        """Send a payload or message as a result of this one now. Wait while its receiver is full."""
        exchange = self._runtime.exchange
        delivery = delivery_of(result(self.message, content, partition, version), exchange.clock())
        if not exchange.submit(delivery):
            await exchange.wait_for_room(delivery).wait()

    def try_send(
        self, content: AnyPayload, *, partition: str | bytes | None = None, version: Version | None = None
    ) -> None:
        """Send like `send`, for plain functions. Raise `NoRoomError` if the receiver is full."""
        if self._blocking:
            raise ArgumentError("try_send", "context.wait(context.send(...)) in a blocking handler", content)
        exchange = self._runtime.exchange
        delivery = delivery_of(result(self.message, content, partition, version), exchange.clock())
        if not exchange.submit(delivery):
            raise NoRoomError(str(delivery.identifier))

    def wait(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine on the node's event loop, from a blocking handler. Return its result."""
        if not self._blocking:
            coroutine.close()
            raise ArgumentError("wait", "await in a handler that is not blocking", coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._runtime.loop).result()
