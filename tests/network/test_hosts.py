"""A network over several hosts whose cables are pulled and plugged in again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.network.hosts import Hosts, are_possible
from tests.network.processes import CLUSTER, LEASE, Fleet, Process, answer_of, until

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(not are_possible(), reason="no right to make network namespaces here"),
]

TIMEOUT = 4.0
SLACK = 2.0
PORT = 7700


class Rack:
    """Hosts with processes on them. Addresses are fixed: every host is a machine of its own."""

    def __init__(self, hosts: Hosts, fleet: Fleet) -> None:
        self.hosts = hosts
        self.fleet = fleet

    def start_rendezvous(self, *numbers: int) -> None:
        synod = [f"tcp://{self.hosts.addresses[number]}:{PORT + 3}" for number in numbers]
        for number, member in zip(numbers, synod, strict=True):
            address = f"tcp://{self.hosts.addresses[number]}"
            options = {
                "address": f"{address}:{PORT}",
                "unicast_address": f"{address}:{PORT + 1}",
                "partner_address": f"{address}:{PORT + 2}",
                "lease": LEASE,
            }
            if len(numbers) > 1:
                options |= {"synod": synod, "synod_address": member}
            self.fleet.rendezvous.append(Process("rendezvous", options, self.hosts.on(number)))
        self.fleet.addresses = [process.ready() for process in self.fleet.rendezvous]

    def start_node(self, number: int, name: str, *, works: bool = True) -> Process:
        address = f"tcp://{self.hosts.addresses[number]}:0"
        return self.fleet.start_node(name, prefix=self.hosts.on(number), address=address, works=works)


@pytest.fixture
def rack() -> Iterator[Rack]:
    with Hosts(4) as hosts, Fleet() as fleet:
        yield Rack(hosts, fleet)


def test_a_host_that_is_cut_off_is_left_out_and_comes_back_when_the_cut_heals(rack: Rack) -> None:
    rack.start_rendezvous(0)
    client = rack.start_node(1, "client", works=False)
    rack.start_node(2, "worker 0")
    rack.start_node(3, "worker 1")
    until(lambda: set(client.ask("ask", count=10)["answered"]) == {"worker 0", "worker 1"}, what="both are known")
    under_way = client.begin("ask", count=300, in_flight=30, timeout=TIMEOUT, seconds=0.02)
    rack.hosts.pull(2)
    answer = answer_of(under_way)
    assert sum(answer["answered"].values()) + sum(answer["failed"].values()) == 300
    assert set(answer["failed"]) <= {"AnswerTimeoutError"}
    assert answer["slowest"] < TIMEOUT + SLACK
    until(lambda: client.look()["peers"] == 1, what="the worker is out of the table")
    assert client.ask("ask", count=50)["answered"] == {"worker 1": 50}
    rack.hosts.plug(2)
    until(lambda: client.look()["peers"] == 2, what="the worker is back")
    until(lambda: set(client.ask("ask", count=10)["answered"]) == {"worker 0", "worker 1"}, what="both work again")
    assert client.look()["is_balanced"]


def test_a_leader_that_is_cut_off_leads_no_more_and_follows_when_the_cut_heals(rack: Rack) -> None:
    rack.start_rendezvous(0, 1, 2)
    leader = rack.fleet.leader()
    number = rack.fleet.rendezvous.index(leader)
    client = rack.start_node(3, "client", works=False)
    rack.hosts.pull(number)
    until(lambda: not leader.look()["leads"], longest=LEASE["max_lease"] + SLACK, what="the cut leader gives up")
    others = [one for one in rack.fleet.rendezvous if one is not leader]
    until(lambda: sum(one.look()["leads"] for one in others) == 1, what="another one leads")
    # Those who are on the same side find each other through it.
    rack.start_node(3, "worker")
    until(lambda: client.ask("ask", count=5, timeout=TIMEOUT)["answered"] == {"worker": 5}, what="the worker is found")
    rack.hosts.plug(number)
    until(lambda: sum(one.look()["leads"] for one in rack.fleet.rendezvous) == 1, what="one of all leads")
    assert client.ask("ask", count=5)["answered"] == {"worker": 5}


def test_both_halves_of_a_cut_network_work_and_find_each_other_again(rack: Rack) -> None:
    rack.start_rendezvous(0)
    client = rack.start_node(1, "client", works=False)
    rack.start_node(1, "near")
    far = rack.start_node(2, "far")
    until(lambda: set(client.ask("ask", count=10)["answered"]) == {"near", "far"}, what="both are known")
    rack.hosts.pull(2)
    silence = 2 * CLUSTER["heartbeat_interval"] + 1 + SLACK
    # It sent nothing to the near one, so it does not listen for that.
    until(lambda: far.look()["peers"] == 1, longest=silence, what="the far one has lost whom it answered")
    until(lambda: client.look()["peers"] == 1, longest=silence, what="and nobody has it")
    # The first requests may find out that the near one is gone, by being lost on the way to it.
    until(lambda: far.ask("ask", count=5)["answered"] == {"far": 5}, what="the far one answers itself")
    assert client.ask("ask", count=5)["answered"] == {"near": 5}
    rack.hosts.plug(2)
    until(lambda: far.look()["peers"] == 2 and client.look()["peers"] == 2, what="they know each other again")
    assert far.look()["is_balanced"]
    assert client.look()["is_balanced"]
