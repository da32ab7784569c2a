"""What must hold for the nodes and servers of a simulation together."""

from __future__ import annotations

from hopline.simulation.loop import VirtualLoop
from hopline.simulation.machine import Machine
from hopline.simulation.network import Host
from hopline.simulation.server import Server
from hopline.simulation.watch import Violation, Watch

GRACE = 1.0  # seconds after the last heartbeat that may be missing


class ClusterWatch:
    """Sees who leads, and who is in whose tables."""

    def __init__(self, loop: VirtualLoop, machines: list[Machine], servers: list[Server], watch: Watch) -> None:
        self._loop = loop
        self._machines = machines
        self._servers = servers
        self._watch = watch
        self._news: dict[tuple[str, bytes], float] = {}  # when a machine heard of a dead node last

    def check(self) -> None:
        """Check that there is one leader at most: by what each believes now, and by its own clock."""
        if len(self._servers) > 1:
            leaders = [server.name for server in self._servers if server.is_leader]
            if len(leaders) > 1:
                raise Violation(f"{' and '.join(leaders)} lead at the same time")

    def heard(self, host: Host, frames: list[bytes]) -> None:
        """Note news of a node that is dead: they were under way, and whoever hears them must wait anew."""
        for identity in self._watch.dead:
            if any(identity in frame for frame in frames):
                self._news[host.name, identity] = self._loop.time()

    def expect_no_dead(self) -> None:
        """Check that nobody knows a node any more whose heartbeats have been missing for too long."""
        dead, now = self._watch.dead, self._loop.time()
        for machine in self._machines:
            if not dead or machine.is_paused or not machine.is_up:
                continue
            for node in machine.node.router.directory.elsewhere:
                if node not in dead:
                    continue
                died, interval = dead[node]
                heard = self._news.get((machine.name, node), 0.0)
                since = max(died, heard, machine.started_at, machine.resumed_at)
                if now > since + machine.cluster.missing_heartbeats * interval + GRACE:
                    name = node.decode()
                    raise Violation(f"{machine.name} still knows {name}, which has been dead for {now - since:.3f} s")

    # -- when all is well ----------------------------------------------------------------------------------------------

    def expect_agreement(self) -> None:
        """Check that one server leads, every node follows it, and every node knows exactly what the others have."""
        leaders = [server for server in self._servers if server.is_leader]
        if len(leaders) != 1:
            raise Violation(f"all was well, but {len(leaders)} servers lead")
        for machine in self._machines:
            following = machine.membership.following
            if not following.is_joined or following.server != leaders[0].address:
                raise Violation(f"all was well, but {machine.name} follows {following.server}, not {leaders[0].name}")
        for machine in self._machines:
            self._expect_right_table(machine)

    def _expect_right_table(self, machine: Machine) -> None:
        elsewhere = machine.node.router.directory.elsewhere
        others = {other.identity: other for other in self._machines if other is not machine}
        for node in elsewhere:
            if node not in others:
                raise Violation(f"all was well, but {machine.name} knows {node.decode()}, which is not there")
        for node, other in others.items():
            has = set(other.node.router.directory.advertised())
            knows = set(elsewhere.routes_to(node))
            if has != knows:
                raise Violation(
                    f"all was well, but of {other.name}, {machine.name} knows {len(knows - has)} routes "
                    f"that are not there, and {len(has - knows)} are missing: {_first(knows ^ has)}"
                )
            if elsewhere.uri_of(node) != other.node.uri:
                raise Violation(f"all was well, but {machine.name} believes {other.name} at {elsewhere.uri_of(node)}")


def _first(routes: set[object]) -> str:
    return min(map(str, routes))
