"""What a handler may ask for beside its message."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hopline.actors.results import result
from hopline.message import LocalError, Message, NoRoomError
from hopline.routing import NO_DEADLINE, delivery_of

if TYPE_CHECKING:
    from hopline.actors.services import Services

Answer = TypeVar("Answer")


class HandlerContext:
    """The message that is handled, and ways to send further ones before the handler returns."""

    __slots__ = ("_blocking", "_deadline", "_services", "message")

    def __init__(
        self, message: Message, services: Services, *, blocking: bool = False, deadline: float = NO_DEADLINE
    ) -> None:
        self.message = message
        self._services = services
        self._blocking = blocking
        self._deadline = deadline  # of the message, by the node's clock

    @property
    def correlation_id(self) -> bytes:
        """The flow that the message belongs to."""
        return self.message.correlation_id

    async def send(self, content: object) -> None:
        """Send a payload or message as a result of this one, now; wait for room."""
        exchange = self._services.exchange
        delivery = delivery_of(result(self.message, content), exchange.clock())
        if not exchange.submit(delivery):
            await exchange.wait_for_room(delivery).wait()

    def try_send(self, content: object) -> None:
        """Send as `send` does, but raise `NoRoomError` instead of waiting; for plain functions."""
        if self._blocking:
            raise LocalError("try_send", "context.wait(context.send(...)) in a blocking handler", content)
        exchange = self._services.exchange
        delivery = delivery_of(result(self.message, content), exchange.clock())
        if not exchange.submit(delivery):
            raise NoRoomError(str(delivery.identifier))

    def wait(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine on the node's loop from a blocking handler, and give what it returns."""
        if not self._blocking:
            coroutine.close()
            raise LocalError("wait", "await in a handler that is not blocking", coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._services.loop).result()
