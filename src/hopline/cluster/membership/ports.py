"""What a member of a cluster needs from its surroundings: the routing directory, the schemas and the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hopline.cluster.membership.follower import RendezvousPort
from hopline.cluster.membership.health import HealthFeed
from hopline.cluster.messages.formats import Evidence
from hopline.message import Message, MessageIdentifier, WireFormat
from hopline.routing import NodeRemoval, Route


class RouteDirectory(Protocol):
    """The routes to receivers on this node and on other nodes."""

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Return the routes to this node that others may know: those of some messages, or all."""
        ...

    def learn_all(self, node: bytes, uri: str, routes: Sequence[Route]) -> None:
        """Add routes to another node."""
        ...

    def forget(self, node: bytes, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Remove a receiver on another node, or one of the messages that it handles."""
        ...

    def forget_node(self, node: bytes) -> NodeRemoval | None:
        """Remove another node with all its routes; return None if it was not known."""
        ...

    def routes_to(self, node: bytes) -> list[Route]:
        """Return the known routes to another node."""
        ...


class SchemaPort(Protocol):
    """The schemas of this node's payloads, by their fingerprints."""

    def fingerprint(self, identifier: MessageIdentifier) -> int | None:
        """Return the fingerprint of the payload that this node has for a message; None if it is not known."""
        ...

    def compare(self, node: bytes, announced: Mapping[MessageIdentifier, int]) -> None:
        """Compare the fingerprints that another node has announced with those of this node."""
        ...

    def forget(self, node: bytes) -> None:
        """Forget a node that was removed."""
        ...


class NetworkPort(RendezvousPort, HealthFeed, Protocol):
    """The outgoing side of a node's network connection, as far as membership uses it."""

    def publish(self, message: Message) -> bool:
        """Send a message to the rendezvous server, which relays it to every node."""
        ...

    def send(self, node: bytes, uri: str, message: Message, *, introduces: bool = False) -> None:
        """Send a message directly to one node, if it is reachable.

        Args:
            node: The identity of the node.
            uri: Its address.
            message: A control message, already signed.
            introduces: Whether the message announces this node's hubs, so that no introduction has to precede it.
        """
        ...

    def may_answer(self, node: bytes, domain: str) -> bool:
        """Return whether an answer may be sent to a node now, because not too many links are connecting."""
        ...

    def disconnect(self, node: bytes) -> None:
        """Close the link to a node that was removed."""
        ...

    def is_address(self, uri: str) -> bool:
        """Return whether a URI is well-formed and allowed as the address of a node."""
        ...

    def resolve(self, uri: str) -> str:
        """Return a URI with its host name resolved."""
        ...

    def note_written_format(
        self, node: bytes, wire_format: WireFormat | None, evidence: Evidence = Evidence.RELAYED
    ) -> None:
        """Record the format that a node writes."""
        ...

    def note_read_formats(self, node: bytes, formats: frozenset[WireFormat]) -> None:
        """Record the formats that a node declares to read; an empty set is no declaration."""
        ...
