"""Answers to requests for routes that are lost on the way arrive later, though nobody asks for routes again."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hopline.cluster.membership.owed_answers import OwedAnswers
from hopline.simulation.loop import VirtualLoop, quiet_logs
from hopline.simulation.quiet_network import CLUSTER, QuietNetwork, QuietNode, run_quiet_network

OUTAGE = 10.0  # seconds, longer than it takes to give a link up
REPEATED_WITHIN = 30.0  # seconds from the end of an outage
QUIET = msgspec.structs.replace(CLUSTER, repeat_after=1e6)  # nothing is announced a second time


@pytest.fixture
def without_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwedAnswers, "lost", lambda *_: None)


async def ask_while_cut_off(quiet: QuietNetwork) -> tuple[bool, bool]:
    """Let a node ask for routes that a new one cannot reach; return whether they know each other, soon and later."""
    other = quiet.nodes[0]
    newcomer = quiet.new_node(len(quiet.nodes))
    quiet.nodes.append(newcomer)
    quiet.network.cut(newcomer.transport.host, other.transport.host)
    await newcomer.start()
    await asyncio.sleep(OUTAGE)
    soon = know_each_other(newcomer, other)
    quiet.network.mend()
    await asyncio.sleep(REPEATED_WITHIN)
    return soon, know_each_other(newcomer, other)


def know_each_other(*nodes: QuietNode) -> bool:
    return all(one.knows(other) for one in nodes for other in nodes if one is not other)


def test_nodes_that_could_not_reach_each_other_while_one_asked_know_each_other_soon_after() -> None:
    assert run_quiet_network(3, ask_while_cut_off, QUIET) == (False, True)


@pytest.mark.usefixtures("without_repetition")
def test_without_repetition_they_would_not() -> None:
    assert run_quiet_network(3, ask_while_cut_off, QUIET) == (False, False)


async def ask_while_known(quiet: QuietNetwork) -> bool:
    """Let a known node ask for routes while another one cannot reach it; return whether that one still knows it."""
    asking, other, _ = quiet.nodes
    quiet.network.cut(asking.transport.host, other.transport.host)
    asking.membership.request_routes()
    await asyncio.sleep(OUTAGE)
    return bool(other.knows(asking))


def test_a_node_that_cannot_be_answered_for_a_while_stays_known() -> None:
    assert run_quiet_network(3, ask_while_known, QUIET)


# -- many at once ------------------------------------------------------------------------------------------------------


def seconds_until_all_know_each_other(count: int, links: int) -> float:
    """Let so many nodes start at the same moment, and return when all know all others, in seconds of virtual time."""
    cluster = msgspec.structs.replace(QUIET, answer_links=links)
    loop = VirtualLoop()

    async def run() -> float:
        quiet = QuietNetwork(loop, count, cluster=cluster)
        await quiet.start_servers()
        began = loop.time()
        await asyncio.gather(*(node.start() for node in quiet.nodes))
        async with asyncio.timeout(150.0):
            while not all(len(node.membership.health) == count - 1 for node in quiet.nodes):
                await asyncio.sleep(0.25)
        seconds = loop.time() - began
        await quiet.stop()
        return seconds

    with quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(run())


def test_all_find_all_though_each_has_links_for_a_few_answers_at_a_time() -> None:
    assert seconds_until_all_know_each_other(30, links=4) < 60.0
