"""A network run from the command line: a rendezvous server, a node, and everything that can be asked of them."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.commands import Command, prepare, run
from tests.network.processes import free_ports


class Network(NamedTuple):
    folder: Path
    rendezvous: Command
    node: Command
    metrics: tuple[str, str]

    @property
    def identity(self) -> str:
        return self.node.line("is ready").split()[2]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    prepare(folder)
    metrics = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with Command(folder, "rendezvous", "--metrics", metrics[0]) as rendezvous:
        rendezvous.line("is ready")
        with Command(folder, "node", "--app", "greeter:make", "--metrics", metrics[1]) as node:
            node.line("metrics ")
            yield Network(folder, rendezvous, node, (metrics[0], metrics[1]))
            assert node.stop() == 0
            assert "is_balanced" not in node.line("stopped: ")
        assert rendezvous.stop(signal.SIGINT) == 0
        assert "messages relayed" in rendezvous.line("stopped: ")


def test_starting_says_where_it_listens_whom_it_follows_and_what_it_handles(network: Network) -> None:
    lines = "\n".join(network.node.lines)
    assert re.search(r"listens on +tcp://127\.0\.0\.1:\d+\n", lines)
    assert re.search(r"follows +tcp://127\.0\.0\.1:\d+ \(joined\)", lines)
    assert re.search(r"handles +Greet/1\n", lines)
    assert re.search(r"security +not signed; not encrypted", lines)
    assert re.search(r"configuration +hopline\.toml", lines)
    assert re.search(r"publishes at +tcp://127\.0\.0\.1:\d+", "\n".join(network.rendezvous.lines))


def test_a_message_is_sent_and_its_answer_shown(network: Network) -> None:
    done = run(network.folder, "send", "Greet", '{"name": "world"}', "--callback", "Greeting")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].startswith(f"Greeting/1 from {network.identity[:8]} after ")
    assert json.loads(done.stdout.split("\n", 1)[1]) == {"text": "Hello, world!"}


def test_an_answer_for_machines_has_its_road(network: Network) -> None:
    done = run(network.folder, "send", "Greet", '{"name": "you"}', "--callback", "Greeting", "--json")
    answer = json.loads(done.stdout)
    assert (answer["kind"], answer["form"], answer["body"]) == ("Greeting/1", "MessagePack", {"text": "Hello, you!"})
    assert [hop["node"] for hop in answer["route"]][-1] == network.identity


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("Greet", '{"name": "nobody"}', "--callback", "Greeting"), 1, "ValueError: there is nobody to greet"),
        (
            ("Nothing", "--callback", "Greeting", "--timeout", "1"),
            1,
            "nobody handles it; its flow waits for Greeting/1; `hopline routes` lists",
        ),
        (("Greet", '{"name": "slow"}', "--callback", "Greeting", "--timeout", "0.2"), 3, "no answer to Greet/1 within"),
        (
            ("Greet", '{"name": "x"}', "--callback", "Greetin", "--timeout", "1"),
            3,
            "no answer to Greet/1 within 1 s: no Greetin/1 came; `hopline tail` shows",
        ),
        (("Greet", "--file", "nowhere"), 2, "--file: nowhere cannot be read: No such file or directory"),
        (("Greet", "--config", "nowhere"), 2, "nowhere: cannot be read as the configuration: No such file"),
        (("Greet", "--rendezvous", "localhost:1"), 2, "--rendezvous: expected an address to connect to, with one host"),
        (("Greet", "{name}"), 2, "the body is not JSON"),
        (("Greet", "--to-node", "zzz"), 2, "no node 'zzz' is known; known nodes: "),
        (("Greet", "--broadcast", "--receipt"), 2, "a broadcast goes to every node"),
        (("Greet/99999",), 2, "'Greet/99999' is not a kind of message"),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    network: Network, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = run(network.folder, "send", *arguments)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("hopline send: ")
    assert told in line


def test_without_a_callback_it_is_told_where_the_message_went(network: Network) -> None:
    done = run(network.folder, "send", "Greet", '{"name": "x"}', "--to-node", network.identity[:6])
    assert (done.returncode, done.stdout) == (0, f"Greet/1 sent to {network.identity[:8]}\n")
    done = run(network.folder, "send", "Greet", '{"name": "x"}', "--receipt")
    assert (done.returncode, done.stdout[:22]) == (0, "Greet/1 accepted after")


def test_a_broadcast_shows_every_answer(network: Network) -> None:
    arguments = ("Greet", '{"name": "all"}', "--broadcast", "--callback", "Greeting", "--timeout", "1", "--json")
    done = run(network.folder, "send", *arguments)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["body"] for line in done.stdout.splitlines()] == [{"text": "Hello, all!"}] * 2


def test_a_trace_reaches_no_handler_and_says_who_would_get_the_message(network: Network) -> None:
    before = json.loads(run(network.folder, "stats", "--json").stdout)["nodes"][0]
    document = json.loads(run(network.folder, "trace", "Greet", "--json").stdout)
    (node,) = document["nodes"]
    assert (node["node"], node["probe"]) == (network.identity, True)
    assert [actor["name"] for actor in node["actors"]] == ["Greeter", "Greeter"]
    assert 0 < node["round_trip_seconds"] < 5
    assert abs(node["there_seconds"] + node["back_seconds"]) <= node["round_trip_seconds"] + 0.01
    after = json.loads(run(network.folder, "stats", "--json").stdout)["nodes"][0]
    assert after["handled"] - before["handled"] == 3  # two probes and a question for stats
    shown = run(network.folder, "trace", "Greet")
    assert shown.returncode == 0
    assert "Greet/1 would be handled by 1 node" in shown.stdout
    assert run(network.folder, "trace", "Nothing").returncode == 1


def test_a_real_trace_shows_the_road_of_the_answer(network: Network) -> None:
    done = run(network.folder, "trace", "Greet", '{"name": "you"}', "--real", "--callback", "Greeting")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("Greet/1 was answered by Greeting/1 after")
    assert f" -> {network.identity[:8]} -> " in first


def test_stats_show_the_balance_of_every_node(network: Network) -> None:
    document = json.loads(run(network.folder, "stats", "--json").stdout)
    (node,) = document["nodes"]
    assert node["node"] == network.identity
    assert node["is_balanced"]
    assert {actor["name"] for actor in node["actors"]} == {"Greeter"}
    came_in = sum(node[name] for name in ("submitted", "received", "copied"))
    assert came_in == sum(node["outcomes"].values()) + node["waiting"]
    assert document["sum"]["received"] == node["received"]
    shown = run(network.folder, "stats", "--node", network.identity[:4])
    assert shown.returncode == 0
    assert "delivered" in shown.stdout


def test_routes_show_who_handles_what(network: Network) -> None:
    document = json.loads(run(network.folder, "routes", "--json").stdout)
    (route,) = document["routes"]
    assert route["kind"] == "Greet/1"
    assert [place["node"] for place in route["nodes"]] == [network.identity]
    assert len(route["nodes"][0]["actors"]) == 2
    assert network.identity in [hub["node"] for hub in document["hubs"]]
    assert "Greet/1" in run(network.folder, "routes").stdout
    of_node = json.loads(run(network.folder, "routes", "--node", network.identity, "--json").stdout)
    kinds = {route["kind"] for route in of_node["routes"]}
    assert {"Greet/1", "KINO.REQINTROUTES/1", "HOPLINE.PROBE/1"} <= kinds


def test_prometheus_is_told_what_stats_tell(network: Network) -> None:
    run(network.folder, "send", "Greet", '{"name": "world"}', "--callback", "Greeting")
    of_rendezvous, of_node = (_scrape(at) for at in network.metrics)
    assert of_node['hopline_messages_total{outcome="delivered"}'] >= 1
    assert of_node["hopline_joined"] == 1
    assert of_node['hopline_mailbox_waiting{actor="Greeter"}'] == 0
    assert of_rendezvous["hopline_rendezvous_leader"] == 1
    assert of_rendezvous["hopline_rendezvous_relayed_total"] > 0


def _scrape(address: str) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_stats_and_routes_can_be_watched(network: Network) -> None:
    with Command(network.folder, "routes", "--watch", "--interval", "0.1", "--json") as watching:
        watching.line("Greet/1")
        assert watching.stop(signal.SIGINT) == 130


def test_what_is_watched_can_be_piped(network: Network) -> None:
    with Command(network.folder, "stats", "--watch", "--interval", "0.1") as watching:
        watching.line("Greeter")
        assert watching.stop(signal.SIGINT) == 130


@pytest.mark.parametrize("options", [(), ("--receipt",)])
def test_without_a_callback_machines_get_json_too(network: Network, options: tuple[str, ...]) -> None:
    done = run(network.folder, "send", "Greet", '{"name": "you"}', "--json", *options)
    assert json.loads(done.stdout)["kind"] == "Greet/1"


def test_a_server_of_a_synod_that_names_no_members_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "rendezvous", "--synod-address", "tcp://127.0.0.1:7001")
    assert done.returncode == 2
    assert "rendezvous.synod: expected all members" in done.stderr


def test_without_a_rendezvous_server_it_is_said_what_to_do(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    done = run(tmp_path, "send", "Greet", "--rendezvous", address, env={"HOPLINE_NODE__JOIN_TIMEOUT": "0.2"})
    assert done.returncode == 1
    assert done.stderr.startswith(f"hopline send: no rendezvous server answers at {address}; start one with")


def test_the_name_of_a_rendezvous_server_that_nobody_knows_is_reported(tmp_path: Path) -> None:
    address = "tcp://no-such-host.invalid:8001"
    done = run(tmp_path, "nodes", "--rendezvous", address, env={"HOPLINE_NODE__JOIN_TIMEOUT": "0.2"})
    assert done.returncode == 1
    assert f"answers at {address}; the host name of {address} cannot be looked up; start one with" in done.stderr


def test_errors_fit_a_narrow_terminal(tmp_path: Path) -> None:
    narrow = {"COLUMNS": "60", "HOPLINE_NODE__JOIN_TIMEOUT": "0.2", "HOPLINE_NODE__RENDEZVOUS": '["tcp://127.0.0.1:1"]'}
    for arguments in (("ping", "shop"), ("node",), ("schema", "--app", "nowhere:app")):
        done = run(tmp_path, *arguments, env=narrow)
        lines = done.stderr.splitlines()
        assert lines[0].startswith(f"hopline {arguments[0]}: ")
        assert len(lines) > 1
        assert all(len(line) <= 60 for line in lines), lines


def test_a_node_that_is_told_to_stop_finishes_what_is_under_way(tmp_path: Path) -> None:
    prepare(tmp_path)
    with Command(tmp_path, "rendezvous") as rendezvous:
        rendezvous.line("is ready")
        with Command(tmp_path, "node", "--app", "greeter:Greeter") as node:
            node.line("is ready")
            with Command(tmp_path, "send", "Greet", '{"name": "slow"}', "--callback", "Greeting") as sending:
                node.line("greeting slowly")
                assert node.stop(signal.SIGTERM) == 0
                assert sending.end() == 0
                sending.line("Hello, slow!")
            assert "nothing was lost" in node.line("stopped: ")


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    prepare(tmp_path)
    with Command(tmp_path, "node", "--app", "greeter:Greeter", "--embedded") as node:
        node.line("is ready")
        with Command(tmp_path, "send", "Greet", '{"name": "slow"}', "--callback", "Greeting") as sending:
            node.line("greeting slowly")
            node.signal(signal.SIGINT)
            node.line("stopping: ")
            assert node.stop(signal.SIGINT) == 0
            assert sending.end() == 1
        assert "1 handler cancelled" in node.line("stopped: ")


def test_a_thread_that_does_not_end_keeps_no_node_that_has_stopped(tmp_path: Path) -> None:
    prepare(tmp_path)
    slow = {"HOPLINE_NODE__SETTINGS__DRAIN_TIMEOUT": "0.1"}
    with Command(tmp_path, "node", "--app", "greeter:Waiter", "--embedded", env=slow) as node:
        node.line("is ready")
        assert run(tmp_path, "send", "Wait", '{"seconds": 100}').returncode == 0
        node.line("waiting")
        assert node.stop() == 0
        assert "1 handler cancelled" in node.line("stopped: ")


def test_a_second_signal_ends_also_a_node_whose_loop_is_held(tmp_path: Path) -> None:
    prepare(tmp_path)
    with Command(tmp_path, "node", "--app", "greeter:Greeter", "--embedded") as node:
        node.line("is ready")
        assert run(tmp_path, "send", "Greet", '{"name": "nobody in particular"}').returncode == 0
        node.line("greeting for ever")
        node.signal(signal.SIGTERM)
        time.sleep(0.1)  # two signals that come together are one
        assert node.stop() == 1


def test_a_node_that_is_starting_can_be_stopped(tmp_path: Path) -> None:
    prepare(tmp_path)
    with Command(tmp_path, "node", "--app", "greeter:make_never") as node:
        node.line("making")
        assert node.stop() == 0
        node.line("stopped before it was ready")


def test_keys_that_change_are_used_without_a_restart(tmp_path: Path) -> None:
    prepare(tmp_path)
    with (tmp_path / "hopline.toml").open("a") as file:
        file.write('[security]\nkey_file = "keys"\n[[security.domains]]\nname = "greetings"\n')
        file.write('identities = ["Greet", "Greeting"]\n')
    assert run(tmp_path, "keys", "new", "keys", "greetings").returncode == 0
    with Command(tmp_path, "node", "--app", "greeter:make_later", "--embedded") as node:
        node.line("is ready")
        assert "signed: greetings (sealed)" in node.line("security")
        assert run(tmp_path, "send", "Greet", '{"name": "a"}', "--callback", "Greeting").returncode == 0
        assert run(tmp_path, "keys", "new", "keys", "greetings").returncode == 0
        node.signal(signal.SIGHUP)
        node.line("has other keys now")
        assert run(tmp_path, "send", "Greet", '{"name": "b"}', "--callback", "Greeting").returncode == 0
        assert node.stop() == 0


def test_an_encrypted_network_lets_its_members_in_and_nobody_else(tmp_path: Path) -> None:
    prepare(tmp_path)
    plain = (tmp_path / "hopline.toml").read_text()
    for name in ("network", "member"):
        assert run(tmp_path, "keys", "curve", f"{name}.curve").returncode == 0
    curve = '[curve]\nnetwork_key_file = "network.curve"\nmember_key_file = "member.curve"\n'
    (tmp_path / "hopline.toml").write_text(plain + curve)
    (tmp_path / "plain.toml").write_text(plain)
    with Command(tmp_path, "node", "--app", "greeter:Greeter", "--embedded") as node:
        node.line("is ready")
        assert node.line("security").endswith(
            "; encrypted; admits every peer that has the network's public key (admitted is empty)"
        )
        sent = ("send", "Greet", '{"name": "a"}', "--callback", "Greeting")
        assert run(tmp_path, *sent).returncode == 0
        refused = run(tmp_path, *sent, "--config", "plain.toml", env={"HOPLINE_NODE__JOIN_TIMEOUT": "0.5"})
        assert refused.returncode == 1
        assert "no rendezvous server answers" in refused.stderr
        assert node.stop() == 0
