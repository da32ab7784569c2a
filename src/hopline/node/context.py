"""The context of a handler on a node: it can ask others, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hopline.actors import HandlerContext, Services
from hopline.client import MessageHub


@dataclass(slots=True, kw_only=True)
class NodeServices(Services):
    """What the actor hosts of a node share, with the node's hub."""

    hub: MessageHub


class Context(HandlerContext):
    """What a handler gets that has a second parameter: its message, its flow, and the node's hub."""

    __slots__ = ()

    @property
    def hub(self) -> MessageHub:
        """The node's hub, to send requests of one's own. They are flows of their own unless told otherwise."""
        return cast(NodeServices, self._services).hub
