"""How long a network of many nodes takes to form, and how much is said: ``make bench-formation``.

Every node is a real one with sockets of its own, in processes that hold several each. The network has settled when each
node knows every other. Then one more node joins and one is killed, and what that makes the others say is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from hopline import Actor, Network, Node, Payload, RendezvousServer, RendezvousSettings, handler
from hopline.cluster import ClusterSettings, RendezvousAddress

POLL = 0.05
LONGEST = 120.0
QUIET = 11.0  # seconds; every node asks once more within ten
OPEN_FILES = 20_000


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


async def hold(address: RendezvousAddress, count: int, heartbeat: float) -> None:
    """Run so many nodes, and tell how they are for every line that comes in."""
    network = Network(rendezvous=[address], cluster=ClusterSettings(heartbeat_interval=heartbeat), join_timeout=LONGEST)
    nodes = [Node(Answerer(), network=network) for _ in range(count)]
    await asyncio.gather(*(node.start() for node in nodes))
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print(json.dumps({"ready": True}), flush=True)
    while await lines.readline():
        memberships = [node.membership for node in nodes]
        told = {
            "peers": [len(one.health) for one in memberships if one is not None],
            "published": sum(one.traffic.published for one in memberships if one is not None),
            "told": sum(one.traffic.sent for one in memberships if one is not None),
            "heard": sum(one.traffic.received for one in memberships if one is not None),
            "cpu": time.process_time(),
            "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print(json.dumps(told), flush=True)
    await asyncio.gather(*(node.stop() for node in nodes))


class Holder:
    """A process that holds nodes."""

    def __init__(self, address: RendezvousAddress, count: int, heartbeat: float) -> None:
        self.count = count
        given = json.dumps([msgspec.to_builtins(address), count, heartbeat])
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

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def ready(self) -> None:
        """Wait until the nodes have joined."""
        self._read()

    def look(self) -> dict[str, Any]:
        """Ask how the nodes are."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._read()

    def kill(self) -> None:
        """End the process as a crash does."""
        self._process.kill()


# -- in the process that looks on --------------------------------------------------------------------------------------


class Formation(msgspec.Struct, frozen=True):
    """What was seen."""

    nodes: int
    seconds_to_settle: float
    messages_to_settle: int  # about routes, as they arrived at nodes
    messages_for_a_join: int
    seconds_to_know_a_newcomer: float
    messages_for_a_death: int
    seconds_to_miss_a_dead_node: float
    heartbeat: float
    cpu_seconds: float  # of all nodes until the network had settled
    bytes_a_node: float


class _Sums(msgspec.Struct, frozen=True):
    peers: list[int]
    heard: int
    cpu: float
    rss: int


def look_at(holders: Sequence[Holder]) -> _Sums:
    """Ask every process, and add up."""
    looks = [holder.look() for holder in holders]
    return _Sums(
        [peers for look in looks for peers in look["peers"]],
        sum(look["heard"] for look in looks),
        sum(look["cpu"] for look in looks),
        sum(look["rss"] for look in looks),
    )


def wait_for_peers(holders: Sequence[Holder], peers: int, began: float) -> tuple[float, _Sums]:
    """Wait until every node knows so many others, and tell how long that took."""
    while True:
        sums = look_at(holders)
        passed = time.monotonic() - began
        if all(known == peers for known in sums.peers):
            return passed, sums
        if passed > LONGEST:
            raise SystemExit(f"not settled within {LONGEST:g} s: nodes know {min(sums.peers)} to {max(sums.peers)}")
        if sys.stdout.isatty():
            print(
                f"\r{passed:6.1f} s: nodes know {statistics.mean(sums.peers):.1f} others on average", end="", flush=True
            )
        time.sleep(POLL)


def wait_until_quiet(holders: Sequence[Holder]) -> int:
    """Wait until nobody says anything about routes any more, and give how much was heard until then."""
    began = changed = time.monotonic()
    heard = look_at(holders).heard
    while time.monotonic() - changed < QUIET and time.monotonic() - began < LONGEST:
        time.sleep(POLL)
        now_heard = look_at(holders).heard
        if now_heard != heard:
            heard, changed = now_heard, time.monotonic()
    return heard


def measure(address: RendezvousAddress, nodes: int, processes: int, heartbeat: float) -> Formation:
    """Let a network form, grow by one and lose one."""
    counts = [nodes // processes + (number < nodes % processes) for number in range(processes)]
    began = time.monotonic()
    holders: list[Holder] = []
    try:
        holders += [Holder(address, count, heartbeat) for count in counts if count]
        for holder in holders:
            holder.ready()
        settled, sums = wait_for_peers(holders, nodes - 1, began)
        baseline = wait_until_quiet(holders)
        joined_at = time.monotonic()
        with Holder(address, 1, heartbeat) as newcomer:
            newcomer.ready()
            known, _ = wait_for_peers([*holders, newcomer], nodes, joined_at)
            after_join = wait_until_quiet([*holders, newcomer])
            before_death = look_at(holders).heard
            newcomer.kill()
            missed, _ = wait_for_peers(holders, nodes - 1, time.monotonic())
            after_death = wait_until_quiet(holders)
    finally:
        for holder in holders:
            holder.__exit__()
    if sys.stdout.isatty():
        print("\r" + " " * 70 + "\r", end="")
    return Formation(
        nodes=nodes,
        seconds_to_settle=settled,
        messages_to_settle=baseline,
        messages_for_a_join=after_join - baseline,
        seconds_to_know_a_newcomer=known,
        messages_for_a_death=after_death - before_death,
        seconds_to_miss_a_dead_node=missed,
        heartbeat=heartbeat,
        cpu_seconds=sums.cpu,
        bytes_a_node=sums.rss / nodes,
    )


def print_table(formations: Sequence[Formation]) -> None:
    """Print what was seen, a row for each size."""
    print("| nodes | settled after s | messages | a join: messages | s | a death: messages | s | CPU s | MB a node |")
    print("|---|---|---|---|---|---|---|---|---|")
    for one in formations:
        cells = (
            one.nodes,
            f"{one.seconds_to_settle:.1f}",
            f"{one.messages_to_settle:,}",
            one.messages_for_a_join,
            f"{one.seconds_to_know_a_newcomer:.1f}",
            one.messages_for_a_death,
            f"{one.seconds_to_miss_a_dead_node:.1f}",
            f"{one.cpu_seconds:.1f}",
            f"{one.bytes_a_node / 1e6:.1f}",
        )
        print(f"| {' | '.join(map(str, cells))} |")


async def main(sizes: Sequence[int], processes: int, heartbeat: float) -> None:
    """Measure each size beside a rendezvous server of its own."""
    formations = []
    for size in sizes:
        async with RendezvousServer(RendezvousSettings(address="tcp://127.0.0.1:0")) as server:
            formations.append(await asyncio.to_thread(measure, server.address, size, processes, heartbeat))
    print(f"Real nodes in {processes} processes, a sign of life every {heartbeat:g} s, of which two may be missing.\n")
    print_table(formations)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--heartbeat", type=float, default=5.0)
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, OPEN_FILES), hard))
    if arguments.hold:
        where, count, heartbeat = json.loads(arguments.hold)
        asyncio.run(hold(RendezvousAddress(**where), count, heartbeat))
    else:
        asyncio.run(main(arguments.nodes, arguments.processes, arguments.heartbeat))
