"""The directory of a node: its own receivers, the known receivers of other nodes, and the links to these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hopline.message import MessageIdentifier
from hopline.node.routing.links import Connect, Links
from hopline.node.routing.unrouted import Sought
from hopline.routing import ExternalTable, HubPort, Label, NodeRemoval, Port, Route, Tables

Targets: TypeAlias = tuple[Sought, ...]
OnRoutes: TypeAlias = Callable[[list[Route]], None]


class Directory:
    """Keeps the routing tables and the ports and links that belong to them.

    Args:
        tables: The routing tables.
        connect: Opens the link to a node.
        on_reachable: Called with the receivers, nodes and messages that became reachable.
        on_changed: Called when messages that wait may have to go elsewhere.
        room_in_link: Called when a link may have room again, or its node is gone.
    """

    def __init__(
        self,
        tables: Tables,
        connect: Connect | None,
        on_reachable: Callable[[Targets], None],
        on_changed: Callable[[], None],
        room_in_link: Callable[[bytes | None], None],
    ) -> None:
        self.tables = tables
        self.ports: dict[bytes, Port] = {}  # of actors and hubs of this node
        self.hubs: dict[bytes, HubPort] = {}  # of hubs alone
        self.links = Links(connect, tables.external.uri_of, room_in_link)
        self._on_reachable = on_reachable
        self._on_changed = on_changed
        # Called with the routes to this node that other nodes may know, when they are added and removed.
        self.on_added: OnRoutes | None = None
        self.on_removed: OnRoutes | None = None

    # -- this node -----------------------------------------------------------------------------------------------------

    def add_hub(self, port: HubPort, *, keep_local: bool = False) -> None:
        """Add a hub."""
        hub = port.identity
        self.ports[hub] = port
        self.hubs[hub] = port
        self.tables.internal.add_hub(hub, keep_local=keep_local)
        self._on_reachable((hub,))
        if self.on_added is not None and not keep_local:
            route = Route(hub)
            self.on_added([route])

    def add_actor(self, port: Port, handled: dict[MessageIdentifier, bool]) -> None:
        """Add an actor with the messages that it handles, and whether each is kept local."""
        actor = port.identity
        tables = self.tables
        self.ports[actor] = port
        advertised: list[Route] = []
        for identifier, keep_local in handled.items():
            tables.internal.add_actor(actor, identifier, keep_local=keep_local)
            if not keep_local:
                advertised.append(Route(actor, identifier))
        self._on_reachable((tables.node_identity, actor, *handled))
        self._on_changed()
        if self.on_added is not None:
            self.on_added(advertised)

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
        if port is None:
            return None, None
        return port.label(identifier)

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Return the routes to this node that other nodes may know: those of some messages, or all."""
        routes = self.tables.internal.advertised(identifiers or None)
        return list(routes)

    # -- other nodes ---------------------------------------------------------------------------------------------------

    @property
    def elsewhere(self) -> ExternalTable:
        """The receivers of other nodes."""
        return self.tables.external

    def learn(
        self,
        node: bytes,
        uri: str,
        receiver: bytes,
        identifier: MessageIdentifier | None = None,
    ) -> None:
        """Add a receiver of another node."""
        route = Route(receiver, identifier)
        self.learn_all(node, uri, [route])

    def learn_all(self, node: bytes, uri: str, routes: Sequence[Route]) -> None:
        """Add receivers of another node."""
        external = self.tables.external
        has_moved = node in external and external.uri_of(node) != uri
        if has_moved:
            self.links.drop(node)
        targets: dict[Sought, None] = {node: None}  # an ordered set
        for route in routes:
            receiver = route.receiver
            identifier = route.identifier
            external.add(node, uri, receiver, identifier)
            targets[receiver] = None
            if identifier is not None:
                targets[identifier] = None
        self._on_reachable(tuple(targets))
        self._on_changed()

    def forget(
        self,
        node: bytes,
        receiver: bytes,
        identifier: MessageIdentifier | None = None,
    ) -> None:
        """Remove a receiver of another node, or one of the messages that it handles."""
        removal = self.tables.external.remove_route(node, receiver, identifier)
        if removal is not None:
            self._disconnect(node)
        self._on_changed()

    def forget_node(self, node: bytes) -> NodeRemoval | None:
        """Remove a node and all its receivers."""
        removal = self.tables.external.remove_node(node)
        self._disconnect(node)
        self._on_changed()
        return removal

    def _disconnect(self, node: bytes) -> None:
        self.links.drop(node)
        self.tables.balance.forget(node)

    def routes_to(self, node: bytes) -> list[Route]:
        """Return the known routes to another node."""
        return self.tables.external.routes_to(node)
