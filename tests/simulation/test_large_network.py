"""What changes cost as a network grows: no change causes more messages for each node in a larger network."""

from __future__ import annotations

import functools

import msgspec
import pytest
from benchmarks.bench_large_networks import CHANGES, SIZES, read_recorded
from tools.large_networks_charts import PAGE, PICTURE, page_with_tables

from hopline.simulation import large_network
from hopline.simulation.large_network import Cost, LargeNetwork, measure

SMALL, LARGE = 8, 40
MOST_MESSAGES = {"ask": 2.5, "join": 12, "leave": 6, "crash": 1, "failover": 12, "cut": 24}
"""For each node of a network of any size. With N nodes, each notice that a server publishes is N messages."""

measured = functools.cache(measure)


def messages_a_node(network: LargeNetwork, change: str) -> float:
    cost: Cost = getattr(network, change)
    return cost.messages / network.nodes


@pytest.mark.parametrize("nodes", [SMALL, LARGE])
@pytest.mark.parametrize("change", MOST_MESSAGES)
def test_a_change_costs_each_node_a_few_messages_however_many_nodes_there_are(nodes: int, change: str) -> None:
    assert messages_a_node(measured(nodes), change) <= MOST_MESSAGES[change]


def test_forming_costs_each_node_a_few_messages_for_every_other() -> None:
    for nodes in (SMALL, LARGE):
        assert messages_a_node(measured(nodes), "form") <= 10 * nodes


@pytest.mark.parametrize("nodes", [SMALL, LARGE])
def test_a_node_is_linked_to_those_that_it_talks_to_and_hears_their_heartbeats_only(nodes: int) -> None:
    rest = measured(nodes).rest
    assert (rest.links, rest.watched) == (2, 2)  # nodes send to the next one, which answers
    assert rest.heartbeats == pytest.approx(2 / 5 + 1, abs=0.1)  # every five seconds; of the server, every second


def test_all_nodes_asking_after_the_failure_of_a_server_would_be_a_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    asks_at_once = msgspec.structs.replace(large_network.CLUSTER, repeat_after=0.001)
    monkeypatch.setattr(large_network, "CLUSTER", asks_at_once)
    assert messages_a_node(measure(LARGE), "failover") > LARGE


@pytest.mark.slow
def test_a_change_in_a_network_of_two_hundred_nodes_costs_each_as_little() -> None:
    network = measure(200)
    assert all(messages_a_node(network, change) <= most for change, most in MOST_MESSAGES.items())


# -- what is recorded in the documentation ---------------------------------------------------------------------------


def test_the_recorded_figures_are_within_the_same_bounds() -> None:
    networks = read_recorded()
    sizes = [network.nodes for network in networks]
    assert sizes == list(SIZES[: len(sizes)])
    for network in networks:
        assert all(messages_a_node(network, change) <= most for change, most in MOST_MESSAGES.items())


def test_the_tables_and_the_picture_in_the_documentation_are_made_of_the_recorded_figures() -> None:
    page = PAGE.read_text()
    assert page_with_tables(page, read_recorded()) == page
    for change in CHANGES.values():
        assert change in PICTURE.read_text()
