"""A network of several nodes in one process, in virtual time, with the faults that a test asks for.

The nodes are real ones, and so is the rendezvous server. Only what is below them, where TCP would be, is simulated, by
the virtual network of `hopline.simulation`: it can lose and delay messages, cut nodes off, and let them crash.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random

from hopline.actors import Actor
from hopline.checks import Range, require, require_numbers
from hopline.cluster import LeaseSettings
from hopline.message import ArgumentError, Message, payload_type
from hopline.node import Network, Node, NodeSettings
from hopline.simulation.network import NetworkConditions, VirtualNetwork
from hopline.simulation.server import SimulatedServer, SynodShape
from hopline.simulation.transport import SimulatedTransport
from hopline.testing.clock import virtual_time
from hopline.testing.nodes import recorded_node
from hopline.testing.record import SentMessages

_PORT = 5000
_POLL_SECONDS = 0.1  # of virtual time
_PROBABILITY = Range(0, 1)
_ACCEPTED = {"drop": _PROBABILITY, "duplicate": _PROBABILITY, "latency": Range(0), "jitter": Range(0)}


@asynccontextmanager
async def network(seed: int = 0) -> AsyncIterator[InProcessNetwork]:
    """Run a network in virtual time, without nodes at first.

    Args:
        seed: Decides whatever is left to chance: which messages are lost, and how long each takes. The same seed gives
            the same run.

    >>> from hopline import Actor, Payload, Request, handler
    >>> from hopline.testing import run
    >>> class Pong(Payload): ...
    >>> class Ping(Request[Pong]): ...
    >>> class Ponger(Actor):
    ...     @handler
    ...     def answer(self, ping: Ping) -> Pong:
    ...         return Pong()
    >>> async def test_a_ping() -> None:
    ...     async with network() as machines:
    ...         await machines.add("server", Ponger())
    ...         client = await machines.add("client")
    ...         await client.hub.ask(Ping())
    >>> run(test_a_ping())
    """
    with virtual_time():
        machines = InProcessNetwork(seed)
        await machines.start()
        try:
            yield machines
        finally:
            await machines.stop()


class InProcessNetwork:
    """Nodes that reach each other over a simulated network. Use it as ``async with network() as machines``.

    Attributes:
        record: What the nodes have sent so far, for `expect`.
        seed: The seed of the run.
    """

    def __init__(self, seed: int = 0) -> None:
        def random_for(purpose: str) -> Random:
            return Random(f"{seed}/{purpose}")  # noqa: S311 - not for secrets

        self.seed = seed
        self.record = SentMessages()
        self._virtual = VirtualNetwork(asyncio.get_running_loop(), random_for("network"))
        self._virtual.conditions_of = self._conditions_of
        self._server = SimulatedServer(0, SynodShape(1, LeaseSettings()), self._virtual, random_for("server"))
        self._nodes: dict[str, Node] = {}
        self._transports: dict[str, SimulatedTransport] = {}
        self._faults: list[_Fault] = []

    async def start(self) -> None:
        """Start the rendezvous server."""
        await self._server.start()

    async def stop(self) -> None:
        """Stop all nodes, then the server."""
        for node in self.nodes:
            await node.stop(0.0)
        await self._server.crash(is_noticed=True)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    async def add(self, name: str, *actors: Actor, settings: NodeSettings | None = None) -> Node:
        """Start a node, and wait until it and the others know each other.

        Args:
            name: The name of the node, and its identity. A node that was killed can be added again.
            actors: Its actors.
            settings: Capacities and timeouts, as for `hopline.Node`.
        """
        known = self._nodes.get(name)
        if known is not None and known.is_running:
            raise ArgumentError("name", "one that no other node of the network has", name)
        if known is None:
            self._transports[name] = SimulatedTransport(self._virtual, f"n{len(self._nodes)}")
        transport = self._transports[name]
        attached = Network(
            rendezvous=[self._server.address],
            address=f"tcp://{transport.host.name}:{_PORT}",
            open_without_keys=True,
            transport=transport,
        )
        node = recorded_node(
            *actors, identity=name, settings=settings, network=attached, record=SentMessages(name, self.record)
        )
        self._nodes[name] = node
        await node.start()
        await self.settled()
        return node

    def __getitem__(self, name: str) -> Node:
        """Return the node of a name."""
        self._require(name)
        return self._nodes[name]

    def _transport_of(self, name: str) -> SimulatedTransport:
        self._require(name)
        return self._transports[name]

    def _require(self, name: str) -> None:
        require(name in self._nodes, "node", f"one of {', '.join(self._nodes) or 'none so far'}", name)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, those that were killed too."""
        return tuple(self._nodes.values())

    async def settled(self, within: float = 300.0) -> None:
        """Wait until all running nodes know each other, and no other ones. Nodes that are cut off do not count.

        Args:
            within: Seconds of virtual time.

        Raises:
            TimeoutError: They do not by then.
        """
        async with asyncio.timeout(within):
            while not self._is_settled():  # noqa: ASYNC110 - nodes have no event for it, and the time is virtual
                await asyncio.sleep(_POLL_SECONDS)

    def _is_settled(self) -> bool:
        running = {name: node for name, node in self._nodes.items() if node.is_running}
        identities = {node.identity for node in running.values()}
        for name, node in running.items():
            known = {other.identity for other in node.known_nodes}
            if not known <= identities:
                return False
            for other_name, other in running.items():
                if other is not node and not self._is_cut(name, other_name) and not _knows(node, other):
                    return False
        return True

    def _is_cut(self, name: str, other: str) -> bool:
        return self._virtual.is_cut(self._transports[name].host, self._transports[other].host)

    # -- faults --------------------------------------------------------------------------------------------------------

    async def kill(self, name: str, *, noticed: bool = True) -> None:
        """Kill a node: it stops at once, says goodbye to nobody, and loses what it has.

        Args:
            name: The name of the node.
            noticed: Whether others notice that their connections broke, as when a process dies. They do not when the
                power fails: then only its heartbeats are missing.
        """
        self._transport_of(name).crash(is_noticed=noticed)
        await self[name].stop(0.0)

    def cut(self, *names: str) -> None:
        """Cut the network, so that these nodes reach each other, but nobody else, and not the rendezvous server."""
        inside = [self._transport_of(name).host for name in names]
        outside = [host for host in self._virtual.hosts.values() if host not in inside]
        for host, other in itertools.product(inside, outside):
            self._virtual.cut(host, other)

    def mend(self) -> None:
        """Undo every `cut`."""
        self._virtual.mend()

    @contextmanager
    def faults(
        self,
        *,
        drop: float = 0.0,
        duplicate: float = 0.0,
        latency: float = 0.001,
        jitter: float = 0.0,
        only: type | Collection[type] = (),
        times: int | None = None,
    ) -> Iterator[None]:
        """Make the messages between nodes unreliable for a while: use it as ``with machines.faults(drop=0.1)``.

        Messages within a node, and announcements and heartbeats of nodes, are not affected.

        Args:
            drop: The probability that a message is lost.
            duplicate: The probability that it arrives twice.
            latency: Seconds that it takes.
            jitter: Seconds that it may take in addition, at random, so that messages overtake each other.
            only: The payload class, or several, whose messages are affected. Default: all are.
            times: How many messages are affected. Default: all are.
        """
        fault = _Fault(NetworkConditions(drop, duplicate, latency, jitter), only, times)
        self._faults.append(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)

    def _conditions_of(self, message: Message) -> NetworkConditions | None:
        for fault in reversed(self._faults):
            if fault.affects(message):
                return fault.conditions
        return None


class _Fault:
    """Conditions for some messages."""

    def __init__(self, conditions: NetworkConditions, only: type | Collection[type], times: int | None) -> None:
        require_numbers(conditions, _ACCEPTED)
        kinds = [only] if isinstance(only, type) else only
        identifiers = [payload_type(kind).identifier for kind in kinds]
        self.conditions = conditions
        self._kinds = {(identifier.identity, identifier.version) for identifier in identifiers}
        self._remaining = times

    def affects(self, message: Message) -> bool:
        """Return whether a message is affected, and count it if it is."""
        if self._kinds and (message.identity, message.version) not in self._kinds:
            return False
        if self._remaining is not None:
            if not self._remaining:
                return False
            self._remaining -= 1
        return True


def _knows(node: Node, other: Node) -> bool:
    """Return whether a node knows every route to another one."""
    known = node.router.directory.elsewhere.routes_to(other.identity)
    return set(other.router.directory.advertised()) <= set(known)
