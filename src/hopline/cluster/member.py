"""A member of a cluster: who it is for the others, what it has around itself, and how much it said and heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from hopline.cluster.following import Rendezvous
from hopline.cluster.formats import Evidence
from hopline.cluster.health import HealthFeed
from hopline.message import Message, MessageIdentifier, WireFormat
from hopline.routing import NodeRemoval, Route


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """Who this node is for others."""

    identity: bytes
    uri: str
    health_uri: str


class Traffic(msgspec.Struct):
    """What was said and heard of routes."""

    published: int = 0  # through the rendezvous server
    told: int = 0  # straight to one node
    heard: int = 0  # from either
    refused: Counter[str] = msgspec.field(default_factory=Counter)  # by reason


class Routes(Protocol):
    """What the directory knows: what lives here, and what lives elsewhere."""

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Return the routes to this node that others may know: of some messages, or all."""
        ...

    def learn_all(self, node: bytes, uri: str, routes: Sequence[Route]) -> None:
        """Note what lives on another node."""
        ...

    def forget(self, node: bytes, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Note that a receiver on another node is gone, or handles a message no longer."""
        ...

    def forget_node(self, node: bytes) -> NodeRemoval | None:
        """Note that a node is gone."""
        ...

    def routes_to(self, node: bytes) -> list[Route]:
        """Return what is known to live on another node."""
        ...


class Network(Rendezvous, HealthFeed, Protocol):
    """What a member says, and to whom."""

    def publish(self, message: Message) -> bool:
        """Give a message to the rendezvous server, for everybody."""
        ...

    def tell(self, node: bytes, uri: str, message: Message, *, introduces: bool = False) -> None:
        """Send a message straight to one node, if it is there; one that `introduces` tells it of this node's hubs."""
        ...

    def disconnect(self, node: bytes) -> None:
        """Close the link to a node that is gone."""
        ...

    def is_address(self, uri: str) -> bool:
        """Return whether a node can be at an address, by its looks."""
        ...

    def resolve(self, uri: str) -> str:
        """Return an address with its name looked up."""
        ...

    def speaks(self, node: bytes, wire_format: WireFormat | None, evidence: Evidence = Evidence.RELAYED) -> None:
        """Note in which format a node writes, to answer it in kind."""
        ...

    def reads(self, node: bytes, formats: frozenset[WireFormat]) -> None:
        """Note which formats a node has declared to read; none: it has declared nothing."""
        ...
