"""What becomes of requests when processes die, pause, drown, or are cut off: they are answered, or fail in time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.network.processes import CLUSTER, Answer, Fleet, Process, answer_of, until

TIMEOUT = 4.0
SLACK = 2.0  # for a machine that has more to do
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def servers() -> Iterator[Fleet]:
    """Three rendezvous servers, which the tests of this module share as long as none of them dies."""
    with Fleet() as fleet:
        fleet.start_rendezvous(3)
        yield fleet


@pytest.fixture
def fleet(servers: Fleet) -> Iterator[Fleet]:
    with Fleet() as fleet:
        fleet.addresses = servers.addresses
        yield fleet


def client_and_workers(fleet: Fleet, workers: int = 2, **options: Any) -> tuple[Process, list[Process]]:
    processes = [fleet.begin_node(f"worker {number}", **options) for number in range(workers)]
    client = fleet.begin_node("client", works=False, **options)
    for process in (*processes, client):
        process.ready()
    until(lambda: client.look()["peers"] == workers, what="the client knows the workers")
    return client, processes


def assert_all_came_home(answer: Answer, count: int, timeout: float = TIMEOUT) -> None:
    assert sum(answer["answered"].values()) + sum(answer["failed"].values()) == count
    assert "wrong answer" not in answer["answered"]
    assert answer["slowest"] < timeout + SLACK


def assert_balanced(*processes: Process) -> None:
    for process in processes:
        look = process.look()
        while look["waiting"]:  # for as long as messages may wait
            look = process.look()
        assert look["is_balanced"], look
        assert look["promised"] == 0


def test_requests_are_shared_between_the_nodes_that_handle_them(fleet: Fleet) -> None:
    client, workers = client_and_workers(fleet)
    answer = client.ask("ask", count=1000)
    assert answer["failed"] == {}
    assert answer["answered"] == {"worker 0": 500, "worker 1": 500}
    assert_balanced(client, *workers)
    sent = client.look()["outcomes"]["sent"]
    assert sent == sum(worker.look()["received"] for worker in workers) == 1000


def test_a_killed_node_is_left_out_and_its_requests_fail_in_time(fleet: Fleet) -> None:
    client, (victim, survivor) = client_and_workers(fleet)
    under_way = client.begin("ask", count=400, in_flight=50, timeout=TIMEOUT, seconds=0.01)
    until(lambda: victim.look()["worked"] > 20, what="the victim is at work")
    victim.kill()
    answer = answer_of(under_way)
    assert_all_came_home(answer, 400)
    assert set(answer["failed"]) <= {"AnswerTimeoutError"}
    assert answer["answered"]["worker 1"] > 200
    # From now on the survivor has it all.
    until(lambda: client.look()["peers"] == 1, longest=2 * CLUSTER["heartbeat_interval"] + 1 + SLACK)
    answer = client.ask("ask", count=200)
    assert answer["answered"] == {"worker 1": 200}
    assert_balanced(client, survivor)


def test_a_request_that_a_killed_node_holds_fails_within_its_timeout(fleet: Fleet) -> None:
    client, (victim,) = client_and_workers(fleet, workers=1)
    under_way = client.begin("ask", count=1, timeout=TIMEOUT, seconds=60.0)
    until(lambda: victim.look()["worked"] == 1, what="the victim has the request")
    victim.kill()
    answer = answer_of(under_way)
    assert answer["failed"] == {"AnswerTimeoutError": 1}
    assert answer["slowest"] < TIMEOUT + SLACK
    assert_balanced(client)


def test_requests_for_nobody_are_parked_and_find_the_node_that_comes(fleet: Fleet) -> None:
    client = fleet.start_node("client", works=False)
    under_way = client.begin("ask", count=20, timeout=TIMEOUT)
    until(lambda: client.look()["waiting"] == 20, what="the requests are parked")
    late = fleet.start_node("late")
    assert answer_of(under_way)["answered"] == {"late": 20}
    assert_balanced(client, late)


def test_a_node_that_restarts_is_found_again(fleet: Fleet) -> None:
    client, (first,) = client_and_workers(fleet, workers=1)
    assert client.ask("ask", count=10)["answered"] == {"worker 0": 10}
    first.kill()
    second = fleet.start_node("second")
    answer = client.ask("ask", count=50, timeout=TIMEOUT)
    assert_all_came_home(answer, 50)
    until(lambda: client.ask("ask", count=5)["answered"] == {"second": 5}, what="the second one answers")
    assert_balanced(client, second)


def test_a_paused_node_stalls_nobody_and_comes_back(fleet: Fleet) -> None:
    client, (sleeper, worker) = client_and_workers(fleet)
    sleeper.signal(signal.SIGSTOP)
    answer = client.ask("ask", count=300, in_flight=30, timeout=TIMEOUT)
    assert_all_came_home(answer, 300)
    assert answer["answered"]["worker 1"] > 150
    until(lambda: client.look()["peers"] == 1, what="the sleeper is out of the table")
    assert client.ask("ask", count=100)["answered"] == {"worker 1": 100}
    sleeper.signal(signal.SIGCONT)
    until(lambda: client.look()["peers"] == 2, what="the sleeper says that it is awake")
    worker.stop()
    assert client.ask("ask", count=5, timeout=TIMEOUT)["answered"] == {"worker 0": 5}
    assert_balanced(client, sleeper)


def test_a_full_queue_to_a_peer_holds_its_own_senders_back_and_nobody_else(fleet: Fleet) -> None:
    sockets = {"send_high_water": 10, "receive_high_water": 10, "link_capacity": 10}
    # Signs of life are rare here: what is seen is the queue, not the monitor.
    slow = {"cluster": {"heartbeat_interval": 30.0}, "sockets": sockets, "settings": {"backpressure_timeout": 1.0}}
    client, (sleeper,) = client_and_workers(fleet, workers=1, **slow)
    client.ask("ask", count=1)
    sleeper.signal(signal.SIGSTOP)
    before = client.look()["rss"]
    under_way = client.begin("ask", count=300, in_flight=300, timeout=TIMEOUT, padding=200_000)
    until(lambda: client.look()["waiting"] > 0 or client.look()["outcomes"]["overflow"] > 0, what="the queue is full")
    other = fleet.start_node("other", **slow)
    assert_all_came_home(answer_of(under_way), 300)
    answer = client.ask("ask", count=50, timeout=TIMEOUT)
    assert answer["answered"]["other"] > 20
    sleeper.signal(signal.SIGCONT)
    assert_all_came_home(client.ask("ask", count=100, timeout=TIMEOUT), 100)
    assert client.look()["rss"] - before < 400_000_000
    assert_balanced(client, sleeper, other)


def test_a_node_that_stops_in_order_finishes_what_it_has(fleet: Fleet) -> None:
    client, (leaver, stayer) = client_and_workers(fleet)
    under_way = client.begin("ask", count=200, in_flight=100, timeout=10.0, seconds=0.1)
    until(lambda: leaver.look()["worked"] > 20, what="the leaver is at work")
    assert leaver.stop() == 0
    answer = answer_of(under_way)
    assert answer["failed"] == {}
    assert client.ask("ask", count=20)["answered"] == {"worker 1": 20}
    assert_balanced(client, stayer)


def test_a_node_that_stops_in_order_loses_nothing_that_is_on_its_way(fleet: Fleet) -> None:
    client, (leaver, stayer) = client_and_workers(fleet)
    under_way = client.begin("ask", count=3000, in_flight=30, timeout=10.0)
    until(lambda: leaver.look()["worked"] > 20, what="the leaver is at work")
    assert leaver.stop() == 0
    assert answer_of(under_way)["failed"] == {}
    assert_balanced(client, stayer)


def test_a_killed_leader_is_replaced_and_nodes_find_each_other_through_the_next() -> None:
    with Fleet() as fleet:
        fleet.start_rendezvous(3)
        client, (worker,) = client_and_workers(fleet, workers=1)
        leader = fleet.leader()
        under_way = client.begin("ask", count=500, in_flight=5, timeout=TIMEOUT, seconds=0.01)
        leader.kill()
        assert fleet.leader() is not leader
        answer = answer_of(under_way)
        assert answer["failed"] == {}, "messages do not go through the rendezvous"
        newcomer = fleet.start_node("newcomer")
        until(lambda: "newcomer" in client.ask("ask", count=10)["answered"], what="the newcomer is found")
        until(lambda: worker.look()["peers"] == 2, what="the worker knows the others")
        assert_balanced(client, worker, newcomer)
        # The dead one comes back as a follower, and a node that asks it first is sent to the leader.
        fleet.rendezvous.remove(leader)
        leader.clean_up()


def test_two_servers_are_a_quorum_of_three_and_one_is_not() -> None:
    with Fleet() as fleet:
        fleet.start_rendezvous(3)
        first = fleet.leader()
        first.kill()
        second = fleet.leader()
        second.kill()
        (last,) = (one for one in fleet.rendezvous if one not in (first, second))
        until(lambda: not last.look()["leads"], what="the last one does not lead")
        rounds = last.look()["rounds"]
        until(lambda: last.look()["rounds"] >= rounds + 3, what="it tries")
        assert not last.look()["leads"]
