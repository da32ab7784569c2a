"""What it costs real nodes to form a network and to change: ``make bench-formation``.

Every node is a real one with sockets of its own, in processes that hold several each, beside three rendezvous servers.
The network has settled when each node knows every other. Then one more node joins, is talked to and is killed; another
one joins and leaves in order; and the rendezvous server that leads is stopped. What each change makes the nodes say
about routes is counted, until they say nothing more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from hopline import Actor, Network, Node, Payload, RendezvousServer, RendezvousSettings, handler
from hopline.cluster import ClusterSettings, RendezvousAddress
from hopline.message import to_message

POLL = 0.05
LONGEST = 240.0
QUIET = 11.0  # seconds; a node that has joined asks once more within ten, in a network of up to a hundred nodes
REPEAT_AFTER = 8.0  # less than usual, to be over sooner
OPEN_FILES = 20_000
SERVERS = 3


class Question(Payload):
    """Something to ask."""

    number: int


class Reply(Payload):
    """Something to answer."""

    number: int


class Answerer(Actor):
    """What every node has, so that everybody has something to announce."""

    @handler
    def answer(self, question: Question) -> Reply:
        """Answer."""
        return Reply(question.number)


# -- in the processes that hold nodes ----------------------------------------------------------------------------------


class Order(msgspec.Struct, frozen=True):
    """What a process is told to do before it says how its nodes are: to ask a node, if one is named."""

    ask: str = ""


class Look(msgspec.Struct, frozen=True):
    """How the nodes of a process are."""

    identities: list[str]
    known: list[int]  # other nodes, by node
    watching: list[int]  # nodes whose heartbeats are listened for, by node
    links: int
    servers: list[str]  # that nodes follow, those excepted that do not know whether theirs leads
    heard: int
    cpu: float
    rss: int


async def hold(addresses: Sequence[RendezvousAddress], count: int, heartbeat: float) -> None:
    """Run so many nodes, and say how they are for every order that comes in."""
    cluster = ClusterSettings(heartbeat_interval=heartbeat, repeat_after=REPEAT_AFTER)
    network = Network(rendezvous=addresses, cluster=cluster, join_timeout=LONGEST)
    nodes = [Node(Answerer(), network=network) for _ in range(count)]
    await asyncio.gather(*(node.start() for node in nodes))
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print(json.dumps({"ready": True}), flush=True)
    while line := await lines.readline():
        order = msgspec.json.decode(line, type=Order)
        if order.ask:
            question = to_message(Question(1)).with_receiver_node(order.ask.encode())
            await nodes[0].hub.send(question, callback=Reply)
        print(msgspec.json.encode(look_of(nodes)).decode(), flush=True)
    await asyncio.gather(*(node.stop() for node in nodes))


def look_of(nodes: Sequence[Node]) -> Look:
    """Return how nodes are."""
    memberships = [node.membership for node in nodes]
    joined = [one for one in memberships if one is not None]
    reports = [node.report().network for node in nodes]
    return Look(
        identities=[node.identity.decode() for node in nodes],
        known=[len(one.health) for one in joined],
        watching=[one.health.watched for one in joined],
        links=sum(len(report.links) for report in reports if report is not None),
        servers=[one.follower.server.broadcast_uri for one in joined if one.follower.is_joined],
        heard=sum(one.traffic.received for one in joined),
        cpu=time.process_time(),
        rss=resident_bytes(),
    )


def resident_bytes() -> int:
    """Return the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Holder:
    """A process that holds nodes."""

    def __init__(self, addresses: Sequence[RendezvousAddress], count: int, heartbeat: float) -> None:
        self.count = count
        given = json.dumps([[msgspec.to_builtins(address) for address in addresses], count, heartbeat])
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "benchmarks.bench_formation", "--hold", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None  # noqa: S101
        return self._process.stdout.readline()

    def ready(self) -> None:
        """Wait until the nodes have joined."""
        self._read()

    def look(self, order: Order | None = None) -> Look:
        """Give an order, and return how the nodes are."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(msgspec.json.encode(order or Order()).decode() + "\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._read(), type=Look)

    def leave(self) -> None:
        """Let the nodes stop in order."""
        self._process.communicate()

    def kill(self) -> None:
        """End the process as a crash does."""
        self._process.kill()


# -- in the process that looks on --------------------------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True):
    """What a change cost."""

    seconds: float
    messages: int  # about routes, as they arrived at nodes


class Formation(msgspec.Struct, frozen=True):
    """What was seen."""

    nodes: int
    form: Change
    join: Change
    crash: Change
    leave: Change
    failover: Change
    links: float  # of a node at rest, as the following
    watching: float
    bytes_a_node: float
    cpu_seconds: float  # of all nodes until the network had settled


class Watch:
    """Waits for what the nodes of several processes know, and counts what they hear."""

    def __init__(self, holders: Sequence[Holder]) -> None:
        self._holders = holders

    def look(self) -> list[Look]:
        """Return how all nodes are."""
        return [holder.look() for holder in self._holders]

    def heard(self) -> int:
        """Return how many messages about routes have arrived."""
        return sum(look.heard for look in self.look())

    def wait_until(self, is_so: Callable[[list[Look]], bool], began: float) -> float:
        """Wait until something is so, and return how long that took."""
        while True:
            looks = self.look()
            passed = time.monotonic() - began
            if is_so(looks):
                return passed
            known = [count for look in looks for count in look.known]
            if passed > LONGEST:
                raise SystemExit(f"not settled within {LONGEST:g} s: nodes know {min(known)} to {max(known)}")
            if sys.stdout.isatty():
                print(f"\r{passed:6.1f} s: nodes know {statistics.mean(known):.1f} others", end="", flush=True)
            time.sleep(POLL)

    def wait_until_quiet(self, seconds: float) -> int:
        """Wait until nobody has said anything about routes for a while, and return how much was heard until then."""
        heard, changed = self.heard(), time.monotonic()
        began = changed
        while time.monotonic() - changed < seconds and time.monotonic() - began < LONGEST:
            time.sleep(POLL)
            now_heard = self.heard()
            if now_heard != heard:
                heard, changed = now_heard, time.monotonic()
        return heard


def all_know(count: int) -> Callable[[list[Look]], bool]:
    """Return a condition: all nodes know so many others."""
    return lambda looks: all(known == count for look in looks for known in look.known)


def measure(servers: Servers, nodes: int, processes: int, heartbeat: float) -> Formation:
    """Let a network form and change."""
    counts = [nodes // processes + (number < nodes % processes) for number in range(processes)]
    quiet = QUIET * max(1.0, nodes / 100)
    began = time.monotonic()
    with ExitStack() as stack:

        def start(count: int) -> Holder:
            return stack.enter_context(Holder(servers.addresses, count, heartbeat))

        holders = [start(count) for count in counts if count]
        for holder in holders:
            holder.ready()
        watch = Watch(holders)
        settled = watch.wait_until(all_know(nodes - 1), began)
        cpu = sum(look.cpu for look in watch.look())
        formed = watch.wait_until_quiet(quiet)
        at_rest = watch.look()

        began = time.monotonic()
        newcomer = start(1)
        newcomer.ready()
        joined = Watch([*holders, newcomer]).wait_until(all_know(nodes), began)
        after_join = Watch([*holders, newcomer]).wait_until_quiet(quiet)
        (identity,) = newcomer.look().identities
        for holder in holders:
            holder.look(Order(ask=identity))
        before_crash = watch.heard()
        newcomer.kill()
        missed = watch.wait_until(_nobody_watches, time.monotonic())
        after_crash = watch.wait_until_quiet(quiet)

        leaving = start(1)
        leaving.ready()
        # The one that was killed is still known to those that never sent to it.
        watch.wait_until(lambda looks: sum(map(sum, (look.known for look in looks))) >= nodes * nodes, time.monotonic())
        before_leaving = watch.wait_until_quiet(quiet)
        known_before = sum(map(sum, (look.known for look in watch.look())))
        began = time.monotonic()
        leaving.leave()
        left = watch.wait_until(
            lambda looks: sum(map(sum, (look.known for look in looks))) == known_before - nodes, began
        )
        after_leaving = watch.wait_until_quiet(quiet)

        began = time.monotonic()
        servers.stop_leader()
        followed = watch.wait_until(lambda looks: servers.are_followed(looks, nodes), began)
        after_failover = watch.wait_until_quiet(quiet)
    if sys.stdout.isatty():
        print("\r" + " " * 70 + "\r", end="")
    return Formation(
        nodes=nodes,
        form=Change(settled, formed),
        join=Change(joined, after_join - formed),
        crash=Change(missed, after_crash - before_crash),
        leave=Change(left, after_leaving - before_leaving),
        failover=Change(followed, after_failover - after_leaving),
        links=sum(look.links for look in at_rest) / nodes,
        watching=sum(map(sum, (look.watching for look in at_rest))) / nodes,
        bytes_a_node=sum(look.rss for look in at_rest) / nodes,
        cpu_seconds=cpu,
    )


def _nobody_watches(looks: list[Look]) -> bool:
    return not any(count for look in looks for count in look.watching)


class Servers:
    """Three rendezvous servers that elect a leader, seen from another thread."""

    def __init__(self, servers: Sequence[RendezvousServer], loop: asyncio.AbstractEventLoop) -> None:
        self.addresses = [server.address for server in servers]
        self._servers = list(servers)
        self._loop = loop

    def stop_leader(self) -> None:
        """Stop the server that leads."""
        leader = next(server for server in self._servers if server.is_leader)
        self._servers.remove(leader)
        asyncio.run_coroutine_threadsafe(leader.stop(), self._loop).result()

    def are_followed(self, looks: Sequence[Look], nodes: int) -> bool:
        """Return whether a server leads, and all nodes follow it."""
        leaders = [server.address.broadcast_uri for server in self._servers if server.is_leader]
        return bool(leaders) and [uri for look in looks for uri in look.servers] == leaders * nodes


def print_table(formations: Sequence[Formation]) -> None:
    """Print what was seen, a row for each size."""
    print(
        "| nodes | settled after s | messages a node | a join: messages a node | s | a leave: messages a node | s "
        "| a crash: messages a node | s | a server stops: messages a node | s | CPU ms a node | MB a node "
        "| links | watched |"
    )
    print("|---" * 15 + "|")
    for one in formations:
        cells: list[Any] = [one.nodes, f"{one.form.seconds:.1f}", f"{one.form.messages / one.nodes:,.0f}"]
        for change in (one.join, one.leave, one.crash, one.failover):
            cells += [f"{change.messages / one.nodes:.1f}", f"{change.seconds:.1f}"]
        cells += [f"{one.cpu_seconds / one.nodes * 1e3:.0f}", f"{one.bytes_a_node / 1e6:.1f}"]
        cells += [f"{one.links:.1f}", f"{one.watching:.1f}"]
        print(f"| {' | '.join(map(str, cells))} |")


async def main(sizes: Sequence[int], processes: int, heartbeat: float) -> None:
    """Measure each size beside rendezvous servers of its own."""
    formations = []
    for size in sizes:
        async with AsyncExitStack() as stack:
            members = free_addresses(SERVERS)
            servers = []
            for member in members:
                settings = RendezvousSettings(address="tcp://127.0.0.1:0", synod_address=member, synod=members)
                servers.append(await stack.enter_async_context(RendezvousServer(settings)))
            seen = Servers(servers, asyncio.get_running_loop())
            formations.append(await asyncio.to_thread(measure, seen, size, processes, heartbeat))
            print_table(formations[-1:])
    print(f"\nReal nodes in {processes} processes, a heartbeat every {heartbeat:g} s, {SERVERS} rendezvous servers.\n")
    print_table(formations)


def free_addresses(count: int) -> list[str]:
    """Return addresses of this machine at which nothing is bound."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"tcp://127.0.0.1:{one.getsockname()[1]}" for one in sockets]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--heartbeat", type=float, default=5.0)
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, OPEN_FILES), hard))
    if arguments.hold:
        where, count, heartbeat = json.loads(arguments.hold)
        asyncio.run(hold([RendezvousAddress(**one) for one in where], count, heartbeat))
    else:
        asyncio.run(main(arguments.nodes, arguments.processes, arguments.heartbeat))
