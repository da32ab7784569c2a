"""The directory of a node: its own receivers, the known receivers of other nodes, and the links to these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hopline.message import MessageIdentifier
from hopline.node.routing.links import Connect, Links
from hopline.node.routing.unrouted import Sought
from hopline.routing import ExternalTable, HubPort, Label, NodeRemoval, Port, Route, Tables


class Directory:
    """Keeps the routing tables and the ports and links that belong to them.

    Args:
        tables: The routing tables.
        connect: Opens the link to a node.
        found: Called with whatever messages may have waited for, when it becomes known.
        changed: Called when messages that wait may have to go elsewhere.
        room_in_link: Called when a link may have room again, or its node is gone.
    """

    def __init__(
        self,
        tables: Tables,
        connect: Connect | None,
        found: Callable[[tuple[Sought, ...]], None],
        changed: Callable[[], None],
        room_in_link: Callable[[bytes | None], None],
    ) -> None:
        self.tables = tables
        self.ports: dict[bytes, Port] = {}  # of actors and hubs of this node
        self.hubs: dict[bytes, HubPort] = {}  # of hubs alone
        self.links = Links(connect, tables.external.uri_of, room_in_link)
        self._found = found
        self._changed = changed
        # Called with the routes to this node that other nodes may know, when they are added and removed.
        self.on_added: Callable[[list[Route]], None] | None = None
        self.on_removed: Callable[[list[Route]], None] | None = None

    # -- this node -----------------------------------------------------------------------------------------------------

    def add_hub(self, port: HubPort, *, keep_local: bool = False) -> None:
        """Add a hub."""
        self.ports[port.identity] = self.hubs[port.identity] = port
        self.tables.internal.add_hub(port.identity, keep_local=keep_local)
        self._found((port.identity,))
        if self.on_added is not None and not keep_local:
            self.on_added([Route(port.identity)])

    def add_actor(self, port: Port, handled: dict[MessageIdentifier, bool]) -> None:
        """Add an actor with the messages that it handles, and whether each is kept local."""
        self.ports[port.identity] = port
        for identifier, keep_local in handled.items():
            self.tables.internal.add_actor(port.identity, identifier, keep_local=keep_local)
        self._found((self.tables.node_identity, port.identity, *handled))
        self._changed()
        if self.on_added is not None:
            public = (identifier for identifier, keep_local in handled.items() if not keep_local)
            self.on_added([Route(port.identity, identifier) for identifier in public])

    def remove(self, receiver: bytes) -> None:
        """Remove a receiver, and withdraw its routes from the network."""
        routes = self.close(receiver)
        if self.on_removed is not None:
            self.on_removed(routes)

    def close(self, receiver: bytes) -> list[Route]:
        """Remove a receiver. Return its routes that other nodes know."""
        self.ports.pop(receiver, None)
        self.hubs.pop(receiver, None)
        self.tables.balance.forget(receiver)
        return self.tables.internal.remove(receiver)

    def label(self, receiver: bytes, identifier: MessageIdentifier) -> Label:
        """Return the names of a receiver of this node and of its handler for a kind of message."""
        port = self.ports.get(receiver)
        return (None, None) if port is None else port.label(identifier)

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Return the routes to this node that other nodes may know: those of some messages, or all."""
        return list(self.tables.internal.advertised(identifiers or None))

    # -- other nodes ---------------------------------------------------------------------------------------------------

    @property
    def elsewhere(self) -> ExternalTable:
        """The receivers of other nodes."""
        return self.tables.external

    def learn(self, node: bytes, uri: str, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Add a receiver of another node."""
        self.learn_all(node, uri, (Route(receiver, identifier),))

    def learn_all(self, node: bytes, uri: str, routes: Sequence[Route]) -> None:
        """Add receivers of another node."""
        external = self.tables.external
        if node in external and external.uri_of(node) != uri:
            self.links.drop(node)  # the node has moved to another address
        sought: dict[Sought, None] = {node: None}
        for route in routes:
            external.add(node, uri, route.receiver, route.identifier)
            sought[route.receiver] = None
            if route.identifier is not None:
                sought[route.identifier] = None
        self._found(tuple(sought))
        self._changed()

    def forget(self, node: bytes, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Remove a receiver of another node, or one of the messages that it handles."""
        if self.tables.external.remove_route(node, receiver, identifier) is not None:
            self._disconnect(node)
        self._changed()

    def forget_node(self, node: bytes) -> NodeRemoval | None:
        """Remove a node and all its receivers."""
        removal = self.tables.external.remove_node(node)
        self._disconnect(node)
        self._changed()
        return removal

    def _disconnect(self, node: bytes) -> None:
        self.links.drop(node)
        self.tables.balance.forget(node)

    def routes_to(self, node: bytes) -> list[Route]:
        """Return the known routes to another node."""
        return self.tables.external.routes_to(node)
