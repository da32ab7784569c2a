"""What must hold for the nodes and servers of a simulation together."""

from __future__ import annotations

from hopline.routing import Route
from hopline.simulation.invariants import NodeInvariants, Violation
from hopline.simulation.loop import VirtualLoop
from hopline.simulation.machine import Machine
from hopline.simulation.network import Host
from hopline.simulation.server import SimulatedServer

GRACE = 1.0  # seconds in addition to the heartbeats that may be missing


class ClusterInvariants:
    """Checks the leadership of servers and the routing tables of nodes."""

    def __init__(
        self,
        loop: VirtualLoop,
        machines: list[Machine],
        servers: list[SimulatedServer],
        nodes: NodeInvariants,
    ) -> None:
        self._loop = loop
        self._machines = machines
        self._servers = servers
        self._nodes = nodes
        self._last_news: dict[tuple[str, bytes], float] = {}  # when a machine last received a message about a dead node
        self._watched_since: dict[tuple[str, bytes], float] = {}  # by a machine, of a dead node

    def check_leader(self) -> None:
        """Check that at most one server believes, by its own clock, that it leads."""
        if len(self._servers) == 1:
            return
        leaders = [server.name for server in self._servers if server.is_leader]
        if len(leaders) > 1:
            names = " and ".join(leaders)
            raise Violation(f"{names} lead at the same time")

    def on_control_message(self, host: Host, frames: list[bytes]) -> None:
        """Record a late message about a dead node: its receiver may know the node for another while."""
        for identity in self._nodes.dead:
            is_about_node = any(identity in frame for frame in frames)
            if is_about_node:
                key = (host.name, identity)
                self._last_news[key] = self._loop.time()

    def check_dead_removed(self) -> None:
        """Check that no machine knows a node that it watches and whose heartbeats have been missing for too long."""
        if not self._nodes.dead:
            return
        for machine in self._machines:
            if machine.is_up and not machine.is_paused:
                self._check_dead_removed_from(machine)

    def _check_dead_removed_from(self, machine: Machine) -> None:
        now = self._loop.time()
        for node in machine.node.router.directory.elsewhere:
            if node not in self._nodes.dead:
                continue
            key = (machine.name, node)
            if not machine.membership.health.is_watched(node):
                self._watched_since.pop(key, None)
                continue
            died_at, interval = self._nodes.dead[node]
            watched_since = self._watched_since.setdefault(key, now)
            news_at = self._last_news.get(key, 0.0)
            since = max(
                died_at,
                news_at,
                watched_since,
                machine.started_at,
                machine.resumed_at,
            )
            heartbeats_time = machine.cluster.missing_heartbeats * interval
            deadline = since + heartbeats_time + GRACE
            if now > deadline:
                name = node.decode()
                seconds = now - since
                raise Violation(f"{machine.name} still knows {name}, which has been dead for {seconds:.3f} s")

    # -- after the faults ----------------------------------------------------------------------------------------------

    def check_agreement(self) -> None:
        """Check that one server leads, every node follows it, and every node knows the routes of all others exactly."""
        leaders = [server for server in self._servers if server.is_leader]
        if len(leaders) != 1:
            raise Violation(f"without faults, {len(leaders)} servers lead")
        leader = leaders[0]
        for machine in self._machines:
            follower = machine.membership.follower
            follows_leader = follower.is_joined and follower.server == leader.address
            if not follows_leader:
                raise Violation(f"without faults, {machine.name} follows {follower.server}, not {leader.name}")
        for machine in self._machines:
            self._check_routes(machine)

    def _check_routes(self, machine: Machine) -> None:
        elsewhere = machine.node.router.directory.elsewhere
        others = {other.identity: other for other in self._machines if other is not machine}
        for node in elsewhere:
            if node not in others:
                name = node.decode()
                raise Violation(f"without faults, {machine.name} knows {name}, which does not exist")
        for node, other in others.items():
            routes = set(elsewhere.routes_to(node))
            self._check_routes_between(machine, other, routes)
            uri = elsewhere.uri_of(node)
            if uri != other.node.uri:
                raise Violation(f"without faults, {machine.name} has the wrong address of {other.name}: {uri}")

    def _check_routes_between(self, machine: Machine, other: Machine, routes: set[Route]) -> None:
        """Check that the routes that a machine knows to another one are those that the other advertises."""
        advertised = set(other.node.router.directory.advertised())
        if routes == advertised:
            return
        superfluous = routes - advertised
        missing = advertised - routes
        example = min(str(route) for route in superfluous | missing)
        raise Violation(
            f"without faults, {machine.name} knows {len(superfluous)} routes that are not there of {other.name}, "
            f"and {len(missing)} are missing: {example}"
        )
