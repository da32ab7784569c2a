"""The context of a handler on a node: it can send requests too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from hopline.actors import ActorRuntime, HandlerContext
from hopline.client import Callback, HandlerHub, MessageHub, Timeout
from hopline.message import Message, MessageIdentifier

Answer = TypeVar("Answer")
First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(slots=True, kw_only=True)
class NodeRuntime(ActorRuntime):
    """What the actor hosts of a node share, and the node's hub."""

    hub: MessageHub


class Context(HandlerContext):
    """The second argument of a handler that has one: its message, its flow, and the node's hub."""

    __slots__ = ()

    @property
    def hub(self) -> MessageHub:
        """The node's hub, for requests. Each begins a flow of its own, unless it is a `Message` with another flow.

        A request without a `timeout` waits for the remaining lifetime of the message that is handled; see `HandlerHub`.
        """
        return HandlerHub(cast(NodeRuntime, self._runtime).hub, self._deadline)

    @overload
    async def ask(self, content: object, callback: type[Answer], *, timeout: Timeout = None) -> Answer: ...
    @overload
    async def ask(self, content: object, callback: MessageIdentifier, *, timeout: Timeout = None) -> Message: ...
    @overload
    async def ask(
        self, content: object, callback: tuple[type[First], type[Second]], *, timeout: Timeout = None
    ) -> First | Second: ...
    @overload
    async def ask(
        self, content: object, callback: Sequence[type | MessageIdentifier], *, timeout: Timeout = None
    ) -> Any: ...
    async def ask(self, content: object, callback: Callback, *, timeout: Timeout = None) -> Any:
        """Send a request through the node's hub and return its answer: short for `context.hub.send`.

        Args:
            content: A payload or a message.
            callback: The kind of the answer; of several, the first to come wins.
            timeout: Seconds to wait. Default: what is left of the lifetime of the message that is handled, or, where
                that has no limit, the node's `request_timeout`.

        Raises:
            AnswerTimeoutError: No answer came in time, or none was left; then nothing is sent.
            ActorError: The handler of the request failed.
            DeliveryError: The request reached nobody.
        """
        return await self.hub.send(content, callback=cast(Any, callback), timeout=timeout)
