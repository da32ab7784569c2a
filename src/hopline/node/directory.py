"""Who is there: the receivers of this node, what is known to live on others, and the links that lead to these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hopline.message import MessageIdentifier
from hopline.node.links import Connect, Links
from hopline.node.parking import Sought
from hopline.routing import ExternalTable, HubPort, Label, NodeRemoval, Port, Route, Tables


class Directory:
    """Keeps the tables that routing goes by. What waits is looked at again when somebody comes or goes.

    `found` is told of everything that a message may have waited for, `changed` that some may have to go elsewhere now.
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
        # What a network is told of: routes to this node that others may know, when they come and when they go.
        self.on_added: Callable[[list[Route]], None] | None = None
        self.on_removed: Callable[[list[Route]], None] | None = None

    # -- here ----------------------------------------------------------------------------------------------------------

    def add_hub(self, port: HubPort, *, keep_local: bool = False) -> None:
        """Let a hub take messages."""
        self.ports[port.identity] = self.hubs[port.identity] = port
        self.tables.internal.add_hub(port.identity, keep_local=keep_local)
        self._found((port.identity,))
        if self.on_added is not None and not keep_local:
            self.on_added([Route(port.identity)])

    def add_actor(self, port: Port, handled: dict[MessageIdentifier, bool]) -> None:
        """Let an actor take the messages that it handles; the flag keeps one of them local."""
        self.ports[port.identity] = port
        for identifier, keep_local in handled.items():
            self.tables.internal.add_actor(port.identity, identifier, keep_local=keep_local)
        self._found((self.tables.node_identity, port.identity, *handled))
        self._changed()
        if self.on_added is not None:
            self.on_added([Route(port.identity, one) for one, keep_local in handled.items() if not keep_local])

    def remove(self, receiver: bytes) -> None:
        """Forget a receiver, and tell the network."""
        forgotten = self.close(receiver)
        if self.on_removed is not None:
            self.on_removed(forgotten)

    def close(self, receiver: bytes) -> list[Route]:
        """Forget a receiver because the node stops, and give the routes to it, which a network was told of."""
        self.ports.pop(receiver, None)
        self.hubs.pop(receiver, None)
        self.tables.balance.forget(receiver)
        return self.tables.internal.remove(receiver)

    def label(self, receiver: bytes, identifier: MessageIdentifier) -> Label:
        """Return the names of a receiver of this node and of its handler for a kind of message."""
        port = self.ports.get(receiver)
        return (None, None) if port is None else port.label(identifier)

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Give the routes to this node that others may know: of some messages, or all."""
        return list(self.tables.internal.advertised(identifiers or None))

    # -- elsewhere -----------------------------------------------------------------------------------------------------

    @property
    def elsewhere(self) -> ExternalTable:
        """What lives on other nodes, to look at."""
        return self.tables.external

    def learn(self, node: bytes, uri: str, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Note that a receiver lives on another node."""
        self.learn_all(node, uri, (Route(receiver, identifier),))

    def learn_all(self, node: bytes, uri: str, routes: Sequence[Route]) -> None:
        """Note what lives on another node."""
        external = self.tables.external
        if node in external and external.uri_of(node) != uri:
            self.links.drop(node)  # it moved
        sought: dict[Sought, None] = {node: None}
        for route in routes:
            external.add(node, uri, route.receiver, route.identifier)
            sought[route.receiver] = None
            if route.identifier is not None:
                sought[route.identifier] = None
        self._found(tuple(sought))
        self._changed()

    def forget(self, node: bytes, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Note that a receiver on another node is gone, or handles a message no longer."""
        if self.tables.external.remove_route(node, receiver, identifier) is not None:
            self._disconnect(node)
        self._changed()

    def forget_node(self, node: bytes) -> NodeRemoval | None:
        """Note that a node is gone."""
        removal = self.tables.external.remove_node(node)
        self._disconnect(node)
        self._changed()
        return removal

    def _disconnect(self, node: bytes) -> None:
        self.links.drop(node)
        self.tables.balance.forget(node)

    def routes_to(self, node: bytes) -> list[Route]:
        """Give what is known to live on another node."""
        return self.tables.external.routes_to(node)
