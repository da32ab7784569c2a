"""`hopline nodes`, `ping` and `tail` at a network of processes."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hopline import Network, Node
from hopline.cli.commands import ping
from hopline.cli.durations import duration_text
from tests.cli.commands import Command, prepare, run
from tests.network.processes import free_ports, until
from tests.node.running import on_loop
from tests.node.running import until as until_known

LATE = """
from hopline import Actor, Payload, handler


class Greets(Payload):
    pass


class Greeting(Payload):
    text: str


class Late(Actor):
    @handler
    def greet(self, request: Greets) -> Greeting:
        return Greeting("late")
"""
NARROW = {"COLUMNS": "80"}
ASK = ("send", "Greet", '{"name": "world"}', "--callback", "Greeting")


class Shops(NamedTuple):
    folder: Path
    address: str  # of the node that is called shop-1


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    folder = tmp_path_factory.mktemp("operations")
    prepare(folder)
    with (
        Command(folder, "node", "--app", "greeter:make", "--embedded", "--identity", "shop-1") as shop,
        Command(folder, "node", "--app", "greeter:Waiter", "--embedded", "--identity", "waiter") as waiter,
    ):
        shop.line("is ready")
        waiter.line("is ready")
        yield Shops(folder, shop.line("listens on").split()[2])
        assert waiter.stop() == 0
        assert shop.stop() == 0


def test_nodes_shows_who_is_in_the_network_since_when_and_how_it_is(network: Shops) -> None:
    # Nodes listen to the heartbeats of those only that they send to, as this command does while it watches.
    with Command(network.folder, "nodes", "--watch", "--interval", "0.2", "--json") as watching:

        def heard() -> dict[str, Any]:
            documents = [json.loads(line)["nodes"] for line in watching.lines if line.startswith("{")]
            nodes = {node["node"]: node for node in documents[-1]} if documents else {}
            ages = [nodes[name]["heartbeat_age"] for name in ("shop-1", "waiter") if name in nodes]
            return nodes if len(ages) == 2 and None not in ages else {}

        until(heard)
        nodes = heard()
        assert watching.stop(signal.SIGINT) == 130
    shop = nodes["shop-1"]
    assert shop["uri"] == network.address
    assert shop["software"].startswith("hopline ")
    assert shop["format"] == "v6"
    assert shop["uptime"] > 0
    assert shop["known_for"] > 0
    assert 0 <= shop["heartbeat_age"] < 10
    assert shop["heartbeat_interval"] == 1
    assert (shop["actors"], shop["handles"]) == (["Greeter", "Greeter"], ["Greet/1"])
    assert nodes["waiter"]["handles"] == ["Wait/1"]
    narrow = run(network.folder, "nodes", env=NARROW)
    assert narrow.returncode == 0
    assert all(len(line) <= 80 for line in narrow.stdout.splitlines()), narrow.stdout
    assert "2 Greeter" in narrow.stdout


def test_ping_measures_a_node_by_name_and_by_address(network: Shops) -> None:
    done = run(network.folder, "ping", "shop", "--count", "3", "--interval", "0.01")
    assert (done.returncode, done.stderr) == (0, "")
    first, *answers, summary = done.stdout.splitlines()
    assert first.startswith(f"ping shop-1 at {network.address}: connected in ")
    assert [re.fullmatch(r"  \d: \d+\.\d ms", line) is not None for line in answers] == [True] * 3
    assert summary.startswith("3 sent, 3 answered, 0% lost; min / mean / max ")
    address = network.address.removeprefix("tcp://")
    done = run(network.folder, "ping", address, "-n", "2", "--interval", "0.01", "--json")
    *answered, total = map(json.loads, done.stdout.splitlines())
    assert [answer["number"] for answer in answered] == [1, 2]
    assert 0 < total["min_seconds"] <= total["mean_seconds"] <= total["max_seconds"] < 2
    assert (total["node"], total["sent"], total["lost"]) == ("shop-1", 2, 0)
    unknown = run(network.folder, "ping", "nobody")
    assert unknown.returncode == 2
    assert "no node 'nobody' is known; known nodes: " in unknown.stderr


def test_a_node_that_does_not_answer_is_lost_and_ctrl_c_shows_the_sum(network: Shops) -> None:
    with Command(network.folder, "node", "--app", "greeter:Waiter", "--embedded", "--identity", "sleeper") as sleeper:
        sleeper.line("is ready")
        with Command(network.folder, "ping", "sleeper", "--count", "0", "--interval", "0.01") as ping:
            ping.line("  1: ")
            ping.stop(signal.SIGINT)
            assert re.search(r"\d+ sent, \d+ answered, 0% lost", ping.line(" sent, "))
        sleeper.signal(signal.SIGSTOP)
        try:
            done = run(network.folder, "ping", "sleeper", "-n", "1", "--timeout", "0.2")
        finally:
            sleeper.signal(signal.SIGCONT)
        assert (done.returncode, done.stderr) in {(1, ""), (2, done.stderr)}  # 2: it was removed meanwhile
        if done.returncode == 1:
            assert "  1: no answer within 0.2 s\n1 sent, 0 answered, 100% lost" in done.stdout


def test_tail_shows_messages_live_with_their_bodies_and_ends_at_ctrl_c(network: Shops) -> None:
    with Command(network.folder, "tail", "Greet", "--body", env=NARROW) as tail:
        tail.line("messages of ")
        assert run(network.folder, *ASK).returncode == 0
        line = tail.line("Greet/1")
        assert re.match(r"\d\d:\d\d:\d\d\.\d{3}  shop-1  Greet/1  -> Greeter\.greet", line)
        assert tail.line('"name": "world"')
        assert tail.stop(signal.SIGINT) == 0
        assert tail.line("1 shown, 0 left out")
        assert all(len(line) <= 80 for line in tail.lines), tail.lines


def test_tail_writes_json_lines_for_one_flow_of_a_node_and_ends_after_a_count(network: Shops) -> None:
    with Command(network.folder, "tail", "--node", "shop-1", "--all", "--json", "--count", "5") as tail:
        tail.line("messages of 1 node;")
        answer = json.loads(run(network.folder, *ASK, "--json").stdout)
        assert tail.end() == 0
        documents = [json.loads(line) for line in tail.lines if line.startswith("{")]
        assert [document["event"] for document in documents[:2]] == ["received", "delivered"]
        assert {document["event"] for document in documents[2:]} == {"sent", "submitted", "handled"}
        assert {document["flow"] for document in documents} == {answer["correlation_id"]}
        assert {document["node"] for document in documents} == {"shop-1"}
        assert "body" not in documents[0]


def test_tail_suggests_a_kind_for_one_that_no_node_handles(network: Shops) -> None:
    done = run(network.folder, "tail", "Gret", "Greet/2", "Greet/1", "Unlike", "--for", "0.1")
    assert done.returncode == 0, done.stderr
    suggestions = [line for line in done.stderr.splitlines() if "did you mean" in line]
    assert [line.partition("; ")[0] for line in suggestions] == [
        "hopline tail: no node handles Gret/1",
        "hopline tail: no node handles Greet/2",
    ]
    assert all("did you mean Greet/1?" in line for line in suggestions)


def test_a_network_without_other_nodes_is_no_error_and_says_how_to_start_one(tmp_path: Path) -> None:
    prepare(tmp_path)
    with Command(tmp_path, "rendezvous") as server:
        server.line("is ready")
        for arguments in (("nodes",), ("tail", "--for", "2")):
            done = run(tmp_path, *arguments)
            assert done.returncode == 0, done.stderr
            assert "no other node is in the network; start one with `hopline node`" in done.stdout + done.stderr
        server.stop()


def test_tail_counts_what_it_leaves_out(network: Shops) -> None:
    with Command(network.folder, "tail", "Greet", "--rate", "1", "--json") as tail:
        tail.line("messages of ")
        broadcast = ("send", "Greet", '{"name": "all"}', "--broadcast", "--callback", "Greeting", "--timeout", "0.5")
        assert run(network.folder, *broadcast).returncode == 0  # to both actors
        left_out = json.loads(tail.line("left_out"))
        assert left_out["node"] == "shop-1"
        assert left_out["left_out"] >= 1
        assert tail.stop(signal.SIGTERM) == 0


def test_a_kind_that_resembles_another_is_named_at_once_while_the_message_still_waits(network: Shops) -> None:
    with Command(network.folder, "send", "Gret", '{"name": "x"}', "--callback", "Greeting", "--timeout", "60") as send:
        line = send.line("did you mean")
        assert line == "hopline send: no node handles Gret/1 yet; did you mean Greet/1? Waiting for one for 5 s"
        assert send.is_running
        assert send.stop(signal.SIGINT) == 130
    done = run(network.folder, "trace", "greet/1/eu")
    assert (done.returncode, done.stderr) == (
        1,
        "hopline trace: unroutable: no node announces greet/1/eu; did you mean Greet/1?\n",
    )


def test_a_message_that_waits_is_sent_when_its_kind_appears(network: Shops) -> None:
    (network.folder / "late.py").write_text(LATE)
    with Command(network.folder, "send", "Greets", "--callback", "Greeting", "--timeout", "60") as send:
        send.line("did you mean Greet/1?")
        with Command(network.folder, "node", "--app", "late:Late", "--embedded") as late:
            assert send.end() == 0
            assert send.line('"text": "late"')
            late.stop()


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """Return a folder with the keys of two domains, and a configuration for each of their members."""
    prepare(tmp_path)
    plain = (tmp_path / "hopline.toml").read_text()
    for domain in ("greetings", "news"):
        assert run(tmp_path, "keys", "new", "keys", domain).returncode == 0
    greetings = '[[security.domains]]\nname = "greetings"\nidentities = ["Greet", "Greeting"]\n'
    news = '[[security.domains]]\nname = "news"\nidentities = ["News"]\n'
    security = '[security]\nkey_file = "keys"\n'
    (tmp_path / "both.toml").write_text(plain + security + greetings + news)
    (tmp_path / "first.toml").write_text(plain + security + greetings)
    (tmp_path / "second.toml").write_text(plain + security + news)
    return tmp_path


def test_with_keys_only_members_of_the_first_signed_domain_see_messages(signed: Path) -> None:
    with Command(signed, "node", "--app", "greeter:make_later", "--embedded", "--config", "both.toml") as node:
        node.line("is ready")
        nodes = json.loads(run(signed, "nodes", "--json", "--config", "both.toml").stdout)["nodes"]
        assert [entry["domains"] for entry in nodes] == [["greetings", "news"]]
        assert (
            run(signed, "ping", node.line("is ready").split()[2], "-n", "1", "--config", "second.toml").returncode == 0
        )
        refused = run(signed, "tail", "--for", "30", "--config", "second.toml")
        assert refused.returncode == 1, refused.stderr
        assert "no node shows its messages" in refused.stderr
        with Command(signed, "tail", "--count", "1", "--body", "--config", "first.toml") as tail:
            tail.line("messages of 1 node;")
            assert run(signed, *ASK, "--config", "first.toml").returncode == 0
            assert tail.end() == 0
            assert tail.line('"name": "world"')
        node.line("with their bodies")
        assert node.stop() == 0


@on_loop
async def test_a_node_that_does_not_know_the_probe_is_pinged_by_a_question_for_a_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unknown(*_: object) -> None:
        """Answer as a node of the reference: not at all."""

    (port,) = free_ports(1)
    network = Network(rendezvous=[f"tcp://127.0.0.1:{port}"], embedded=True)
    async with Node(network=network) as one, Node(network=network) as other:
        await until_known(lambda: one.identity in {known.identity for known in other.known_nodes})
        assert await ping._question_for(other, one.identity, 30.0) is ping._probe
        monkeypatch.setattr(ping, "probe", unknown)
        assert await ping._question_for(other, one.identity, 30.0) is ping._ask_for_route


def test_durations_are_shown_in_their_two_largest_units() -> None:
    shown = {0.25: "0.2 s", 12.4: "12 s", 60: "1 min", 3_725: "1 h 2 min", 7_200: "2 h", 187_000: "2 d 3 h"}
    assert {seconds: duration_text(seconds) for seconds in shown} == shown
