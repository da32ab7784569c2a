"""The context of a handler on a node: it can send requests too."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, cast

from hopline.actors import ActorRuntime, HandlerContext
from hopline.client import Asking, Callback, HandlerHub, MessageHub, Partition, Retry, Timeout
from hopline.message import Version, attempt_of


@dataclass(slots=True, kw_only=True)
class NodeRuntime(ActorRuntime):
    """What the actor hosts of a node share, and the node's hub."""

    hub: MessageHub


class Context(HandlerContext, Asking):
    """The second argument of a handler that has one: its message, its flow, and the node's hub.

    `context.ask` asks through the hub. What it asks belongs to the journey of the message that is handled.
    """

    __slots__ = ()

    @property
    def hub(self) -> MessageHub:
        """The node's hub, for requests. Each begins a flow of its own, unless it is a `Message` with another flow.

        A request without a `timeout` waits for the remaining lifetime of the message that is handled; see `HandlerHub`.
        """
        return HandlerHub(cast(NodeRuntime, self._runtime).hub, self._deadline)

    @property
    def attempt(self) -> int:
        """The attempt of the caller that this message belongs to, counted from 1; see `Retry`."""
        return attempt_of(self.message)

    def _ask(
        self,
        content: Any,
        callback: Callback | None,
        timeout: Timeout,
        partition: Partition,
        version: Version | None,
        retry: Retry | None,
    ) -> Coroutine[Any, Any, Any]:
        return self.hub._ask(content, callback, timeout, partition, version, retry)
