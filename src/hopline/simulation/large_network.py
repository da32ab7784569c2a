"""What a large network costs: forming, and one change at a time, in virtual time.

Nodes start one after the other, a hundred in a second. Every node sends a request to the next one, as in a ring, so
that each talks to two others. The messages that a change causes are counted until everything that follows from it is
over; heartbeats are counted apart, because they come whether anything changes or not. Requests for all routes, which
nodes make now and then, are switched off for the same reason: `ask` is the cost of one.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable

import msgspec

from hopline.cluster import ClusterSettings
from hopline.message import WireFormat
from hopline.simulation.loop import VirtualLoop, quiet_logs
from hopline.simulation.quiet_network import QuietNetwork, QuietNode

SERVERS = 3
CLUSTER = ClusterSettings(routes_period=1e6, tick=0.25)
STARTS_A_SECOND = 100
CUT_SECONDS = 20.0  # longer than it takes to notice that a peer is silent
REST_SECONDS = 20.0
LONGEST_SECONDS = 600.0
POLL_SECONDS = 0.25
_KIBIBYTE = 1024


class Cost(msgspec.Struct, frozen=True):
    """What a change costs all nodes and servers together."""

    seconds: float  # of virtual time, until all nodes that it concerns know of it
    messages: int  # without heartbeats and what servers say to each other; counted once for each receiver
    bytes: int  # of these messages
    cpu_seconds: float  # of the simulation, beyond what a network at rest takes


class Rest(msgspec.Struct, frozen=True):
    """What a network costs in which nothing changes, for each node."""

    links: float  # to other nodes
    watched: float  # nodes whose heartbeats it receives
    heartbeats: float  # received in a second, those of the servers included
    bytes_of_memory: float  # with its share of the simulated network


class LargeNetwork(msgspec.Struct, frozen=True):
    """The costs of a network of some size."""

    nodes: int
    rest: Rest
    form: Cost  # its seconds are counted from the start of the last node
    ask: Cost
    join: Cost
    leave: Cost
    crash: Cost
    failover: Cost
    cut: Cost  # its seconds are counted from its end


def measure(nodes: int) -> LargeNetwork:
    """Let a network of so many nodes form and change, and return what that costs.

    Memory is measured as the growth of this process, so sizes are to be compared in processes of their own.
    """
    loop = VirtualLoop()
    with quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_Measurement(loop, nodes).run())


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIBIBYTE


def _aftermath(nodes: int) -> float:
    """Return the seconds after which a change has no more consequences.

    What changed is announced once more, and a node that has joined asks a second time, later in a larger network.
    """
    slowness = max(1.0, (nodes + 1) / CLUSTER.full_rate_nodes)
    second_request = CLUSTER.routes_start_delay * CLUSTER.routes_start_multiplier * slowness
    return max(CLUSTER.repeat_after, second_request) + 5.0


class _Measurement:
    def __init__(self, loop: VirtualLoop, count: int) -> None:
        self._loop = loop
        self._memory_before = _peak_memory()
        self._quiet = QuietNetwork(loop, count, SERVERS, CLUSTER, WireFormat.V5)
        self._nodes = self._quiet.nodes
        self._cpu_at_rest = 0.0  # in a virtual second
        self._aftermath = _aftermath(count)

    async def run(self) -> LargeNetwork:
        quiet = self._quiet
        await quiet.start_servers()
        form = await self._cost(self._start_all, self._all_know_each_other)
        form = msgspec.structs.replace(form, seconds=form.seconds - len(self._nodes) / STARTS_A_SECOND)
        memory = _peak_memory() - self._memory_before
        await self._talk()
        rest = await self._rest(memory / len(self._nodes))
        asking, leaving, crashing = self._nodes[0], self._nodes[1], self._nodes[4]
        ask = await self._cost(lambda: self._ask_all(asking), lambda: True)
        joining = quiet.new_node(len(self._nodes))
        self._nodes.append(joining)
        join = await self._cost(joining.start, self._all_know_each_other)
        self._nodes.remove(leaving)
        leave = await self._cost(leaving.node.stop, lambda: not self._known_by(leaving))
        self._nodes.remove(crashing)
        crash = await self._cost(crashing.crash, lambda: not self._watched_by(crashing))
        failover = await self._cost(self._crash_leader, self._all_follow_leader)
        cut = await self._cost_of_cut()
        self._nodes.extend([leaving, crashing])
        await quiet.stop()
        return LargeNetwork(
            nodes=len(self._nodes) - 1,
            rest=rest,
            form=form,
            ask=ask,
            join=join,
            leave=leave,
            crash=crash,
            failover=failover,
            cut=cut,
        )

    # -- measuring -----------------------------------------------------------------------------------------------------

    async def _cost(self, change: Callable[[], Awaitable[object]], is_known: Callable[[], bool]) -> Cost:
        traffic = self._quiet.network.traffic
        before = msgspec.structs.replace(traffic)
        began, cpu_before = self._loop.time(), time.process_time()
        await change()
        await self._until(is_known)
        seconds = self._loop.time() - began
        await asyncio.sleep(self._aftermath)
        at_rest = (self._loop.time() - began) * self._cpu_at_rest
        return Cost(
            seconds=seconds,
            messages=traffic.others - before.others,
            bytes=traffic.bytes - before.bytes,
            cpu_seconds=max(0.0, time.process_time() - cpu_before - at_rest),
        )

    async def _until(self, is_known: Callable[[], bool]) -> None:
        deadline = self._loop.time() + LONGEST_SECONDS
        while not is_known():
            if self._loop.time() > deadline:
                raise TimeoutError(f"{len(self._nodes)} nodes do not agree after {LONGEST_SECONDS:g} s")
            await asyncio.sleep(POLL_SECONDS)

    async def _rest(self, memory: float) -> Rest:
        count = len(self._nodes)
        traffic = self._quiet.network.traffic
        heartbeats, cpu_before = traffic.heartbeats, time.process_time()
        await asyncio.sleep(REST_SECONDS)
        self._cpu_at_rest = (time.process_time() - cpu_before) / REST_SECONDS
        watched = [node.membership.health.watched for node in self._nodes]
        links = [node.links for node in self._nodes]
        return Rest(
            links=sum(links) / count,
            watched=sum(watched) / count,
            heartbeats=(traffic.heartbeats - heartbeats) / REST_SECONDS / count,
            bytes_of_memory=memory,
        )

    # -- changes -------------------------------------------------------------------------------------------------------

    async def _start_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for node in self._nodes:
                group.create_task(node.start())
                await asyncio.sleep(1 / STARTS_A_SECOND)

    async def _talk(self) -> None:
        """Let every node ask the next one, and wait until links that only served the forming are closed."""
        following = [*self._nodes[1:], self._nodes[0]]
        for node, other in zip(self._nodes, following, strict=True):
            await node.ask(other)
        await asyncio.sleep(self._aftermath)

    async def _ask_all(self, node: QuietNode) -> None:
        node.membership.request_routes()

    async def _crash_leader(self) -> None:
        leader = next(server for server in self._quiet.servers if server.is_leader)
        await leader.crash(is_noticed=True)

    async def _cost_of_cut(self) -> Cost:
        """Cut half of the nodes off from the servers and from those that they talk to; count from the cut on."""
        for server in self._quiet.servers:
            if not server.is_up:
                await server.start()
        await asyncio.sleep(self._aftermath)
        half = [node.transport.host for node in self._nodes[::2]]

        async def cut_and_mend() -> None:
            self._quiet.network.split(half)
            await asyncio.sleep(CUT_SECONDS)
            self._quiet.network.mend()

        def is_whole() -> bool:
            return self._all_follow_leader() and self._all_know_each_other()

        cost = await self._cost(cut_and_mend, is_whole)
        return msgspec.structs.replace(cost, seconds=cost.seconds - CUT_SECONDS)

    # -- what is known -------------------------------------------------------------------------------------------------

    def _all_know_each_other(self) -> bool:
        others = len(self._nodes) - 1
        return all(len(node.membership.health) >= others for node in self._nodes)

    def _known_by(self, node: QuietNode) -> bool:
        identity = node.node.identity
        return any(identity in other.membership.health for other in self._nodes)

    def _watched_by(self, node: QuietNode) -> bool:
        identity = node.node.identity
        return any(other.membership.health.is_watched(identity) for other in self._nodes)

    def _all_follow_leader(self) -> bool:
        leader = next((server for server in self._quiet.servers if server.is_leader), None)
        if leader is None:
            return False
        followers = [node.membership.follower for node in self._nodes]
        return all(follower.is_joined and follower.server == leader.address for follower in followers)
