"""One file and the environment: what they may say, and what is said of what they may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hopline import DomainSecurity, NodeSettings, WireFormat, new_key
from hopline.cluster import RendezvousAddress
from hopline.config import ConfigurationError, given, read_configuration, write_curve_pair
from hopline.security import KeyFileError, NoSecurity, key_line
from hopline.transport import new_keys

EVERYTHING = """
[node]
identity = "node-1"
address = "tcp://127.0.0.1:5101-5130"
heartbeat_address = "tcp://127.0.0.1:5131"
advertise = "localhost"
rendezvous = ["tcp://127.0.0.1:8001", { broadcast_uri = "tcp://127.0.0.1:9001", unicast_uri = "tcp://127.0.0.1:9002" }]
wire_format = "v6"
join_timeout = 1
settings = { request_timeout = 2, include_tracebacks = true }

[node.cluster]
heartbeat_interval = 0.5

[node.sockets]
link_capacity = 7

[rendezvous]
address = "tcp://127.0.0.1:8001"
synod_address = "tcp://127.0.0.1:7001"
synod = ["tcp://127.0.0.1:7001", "tcp://127.0.0.1:7002", "tcp://127.0.0.1:7003"]
relay = { heartbeat_interval = 1.0, wire_format = "v6" }
lease = { max_lease = 4 }

[[rendezvous.partners]]
network_id = "other"
cluster = ["tcp://127.0.0.1:7101"]

[security]
key_file = "keys"

[[security.domains]]
name = "orders"
identities = ["ORDER"]
refuse_replays = true

[[security.domains]]
name = "public"
unsigned = true

[metrics]
address = "127.0.0.1:9100"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "hopline.toml"
    path.write_text(text)
    return path


def keys_in(folder: Path, *domains: str) -> None:
    path = folder / "keys"
    path.touch(0o600)
    path.write_text("".join(key_line(domain, new_key()) for domain in domains))


def test_a_wire_format_that_is_left_out_is_chosen_for_each_peer(tmp_path: Path) -> None:
    configuration = read_configuration(written(tmp_path, "[node.cluster]\nheartbeat_interval = 0.5\n"), {})
    assert configuration.network().wire_format is None
    assert configuration.client_network().wire_format is None


def test_everything_that_a_file_says_arrives(tmp_path: Path) -> None:
    keys_in(tmp_path, "orders")
    configuration = read_configuration(written(tmp_path, EVERYTHING), {})
    network = configuration.network()
    assert configuration.identity == b"node-1"
    assert configuration.settings == NodeSettings(request_timeout=2, include_tracebacks=True)
    assert (network.address, network.heartbeat_address) == ("tcp://127.0.0.1:5101-5130", "tcp://127.0.0.1:5131")
    assert network.servers[1] == RendezvousAddress("tcp://127.0.0.1:9001", "tcp://127.0.0.1:9002")
    assert (network.wire_format, network.cluster.heartbeat_interval) == (WireFormat.V6, 0.5)
    assert network.sockets.link_capacity == 7
    assert isinstance(network.security, DomainSecurity)
    assert network.security.domains == ("orders", "public")
    assert configuration.key_ring is not None
    rendezvous = configuration.rendezvous()
    assert len(rendezvous.synod) == 3
    assert (rendezvous.relay.wire_format, rendezvous.lease.max_lease) == (WireFormat.V6, 4)
    assert rendezvous.partners[0].network_id == "other"
    assert configuration.metrics() == ("127.0.0.1", 9100)


def test_nothing_is_loopback_without_keys() -> None:
    configuration = read_configuration(None, {})
    network = configuration.network()
    assert network.address.startswith("tcp://127.0.0.1:")
    assert isinstance(network.security, NoSecurity)
    assert (network.curve, configuration.metrics(), configuration.identity) == (None, None, None)
    assert configuration.rendezvous().address == "tcp://127.0.0.1:8001"


ERRORS = [
    ('[nod]\naddress = "x"', "hopline.toml: nod: unknown section, did you mean node?"),
    ("[node]\nadress = 1", "hopline.toml: node.adress: unknown key, did you mean address?"),
    ("[node]\nzzz = 1", "hopline.toml: node.zzz: unknown key, expected one of address, "),
    ("[node.cluster]\nheartbeat = 1", "hopline.toml: node.cluster.heartbeat: unknown key, did you mean heartbeat_in"),
    ("[node]\naddress = 5", "hopline.toml: node.address: expected text, found 5"),
    ('[node]\naddress = "5101"', "hopline.toml: node.address: expected an address such as tcp://"),
    ('[node]\naddress = "tcp://*:5101"', "hopline.toml: node.address: expected a loopback address, or keys, or open_"),
    ('[node]\nrendezvous = "tcp://a:1"', "hopline.toml: node.rendezvous: expected a list of text or a table, found"),
    ('[node]\nrendezvous = ["a"]', "hopline.toml: node.rendezvous: expected an address to connect to"),
    ('[node]\nrendezvous = ["tcp://*:8001"]', "hopline.toml: node.rendezvous: expected an address to connect to"),
    ('[node]\nrendezvous = ["tcp://127.0.0.1:65530"]', "hopline.toml: node.rendezvous: expected ports up to 65535"),
    ('[node]\nrendezvous = [{ broadcast_uri = "x", unicast_uri = "y" }]', "hopline.toml: node.rendezvous: expected an"),
    (
        "[node.cluster]\nheartbeat_interval = nan",
        "hopline.toml: node.cluster.heartbeat_interval: expected a number, at",
    ),
    (
        "[node.cluster]\nheartbeat_interval = inf",
        "hopline.toml: node.cluster.heartbeat_interval: expected a number, at",
    ),
    (
        "[node.sockets]\nrefusal_timeout = nan",
        "hopline.toml: node.sockets.refusal_timeout: expected a number, at",
    ),
    (
        "[node.sockets]\nheartbeat_interval = inf",
        "hopline.toml: node.sockets.heartbeat_interval: expected a number, at",
    ),
    ("[node]\njoin_timeout = nan", "hopline.toml: node.join_timeout: expected a number, at least 0, found nan"),
    ("[node]\nlinger_timeout = -1", "hopline.toml: node.linger_timeout: expected a number, at least 0, found -1"),
    ("[node]\nrendezvous = []", "hopline.toml: node.rendezvous: expected at least one server, found []"),
    ("[node]\nrendezvous = [5]", "hopline.toml: node.rendezvous[0]: expected text or a table, found 5"),
    ('[node]\nrendezvous = [{ broadcast_uri = "x" }]', "hopline.toml: node.rendezvous[0].unicast_uri: this key is mis"),
    (
        '[node]\nwire_format = "v9"',
        "hopline.toml: node.wire_format: expected one of first, v4, v5_int32, v5, v6, found 'v9'",
    ),
    ("[node.settings]\nmailbox_capacity = 0", "hopline.toml: node.settings.mailbox_capacity: expected a number, at l"),
    (
        "[node.settings]\ninclude_tracebacks = 1",
        "hopline.toml: node.settings.include_tracebacks: expected true or false, found 1",
    ),
    ("[node]\nsettings = 1", "hopline.toml: node.settings: expected a table, found 1"),
    ("node = 1", "hopline.toml: node: expected a table, found 1"),
    ("[node.address]\nx = 1", "hopline.toml: node.address: expected text, found a table"),
    ("[rendezvous.lease]\nmax_lease = 0.1", "hopline.toml: rendezvous.lease.max_lease: expected more than two of "),
    ('[rendezvous]\nsynod = ["tcp://127.0.0.1:1"]', "hopline.toml: rendezvous.synod_address: expected one of the mem"),
    (
        '[rendezvous]\nsynod_address = "tcp://127.0.0.1:1"\nsynod = ["tcp://127.0.0.1:1", "b"]',
        "hopline.toml: rendezvous.synod: expected an address to connect to",
    ),
    (
        '[[rendezvous.partners]]\nnetwork_id = "a"\ncluster = ["tcp://*:1"]',
        "hopline.toml: rendezvous.partners: expected an address to connect to",
    ),
    ("[[rendezvous.partners]]\ncluster = []", "hopline.toml: rendezvous.partners[0].network_id: this key is missing"),
    ('[[security.domains]]\nname = "a"', "hopline.toml: security.key_file: expected the file that has the keys of a,"),
    ('[[security.domains]]\nnam = "a"', "hopline.toml: security.domains[0].nam: unknown key, did you mean name?"),
    ('[[security.domains]]\nname = "a"\nprofile = "x"', "hopline.toml: security.domains[0].profile: expected one of"),
    ('[security]\nkey_file = "keys"', "hopline.toml: security.key_file: there are keys, but no [[security.domains]]"),
    ("[curve]\nadmitted = []", "hopline.toml: curve.network_key_file: expected a file made by `hopline keys curve`"),
    ('[metrics]\naddress = "x"', "hopline.toml: metrics.address: expected host:port, such as 127.0.0.1:9100, found"),
    (
        '[node]\nheartbeat_address = "tcp://*:1"',
        "hopline.toml: node.heartbeat_address: expected a loopback addr",
    ),
    ('[rendezvous]\nunicast_address = "tcp://*:1"', "hopline.toml: rendezvous.unicast_address: expected a loopback a"),
    ('[rendezvous]\naddress = "8001"', "hopline.toml: rendezvous.address: expected an address such as"),
    ('[node]\nidentity = ""', "hopline.toml: node.identity: expected 1 to 255 bytes, found ''"),
    ("[node", "hopline.toml: not TOML: "),
]


@pytest.mark.parametrize(("text", "told"), ERRORS)
def test_what_is_wrong_is_said_with_its_key(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        _use_all()
    assert str(caught.value).startswith(told)


def _use_all() -> None:
    configuration = read_configuration(None, {})
    configuration.network()
    configuration.rendezvous()
    configuration.metrics()
    assert configuration.identity is None


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_configuration(tmp_path / "hopline.toml", {})


def test_the_environment_wins_over_the_file_and_options_over_both(tmp_path: Path) -> None:
    path = written(tmp_path, '[node]\naddress = "tcp://127.0.0.1:1"\njoin_timeout = 1\n[node.cluster]\nknown_nodes = 5')
    environment = {
        "HOPLINE_CONFIG": str(path),
        "HOPLINE_NODE__ADDRESS": "tcp://127.0.0.1:2",
        "HOPLINE_NODE__CLUSTER__HEARTBEAT_INTERVAL": "2",
        "HOPLINE_NODE__RENDEZVOUS": '["tcp://127.0.0.1:3"]',
        "HOPLINE_NODE__ADVERTISE": "10",  # a number is text where text is wanted
        "HOPLINE_SECURITY__DOMAINS": '[{ name = "public", unsigned = true }]',
        "HOPLINE_HOME": "nobody's business",
    }
    network = read_configuration(None, environment).network()
    assert network.address == "tcp://127.0.0.1:2"
    assert (network.cluster.heartbeat_interval, network.cluster.known_nodes) == (2, 5)
    assert (network.rendezvous, network.advertise, network.join_timeout) == (["tcp://127.0.0.1:3"], "10", 1)
    assert network.security.domains == ("public",)
    options = {"node.address": given("--address", "tcp://127.0.0.1:4")}
    assert read_configuration(path, environment, options).network().address == "tcp://127.0.0.1:4"


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("HOPLINE_NODE_ADDRESS", "x", "two underscores stand for a dot: did you mean HOPLINE_NODE__ADDRESS?"),
        ("HOPLINE_NODE__ADRESS", "x", "unknown key, did you mean address?"),
        ("HOPLINE_NOD__ADDRESS", "x", "unknown section, did you mean node?"),
        ("HOPLINE_NODE__ADDRESS", "x", "expected an address such as "),
        ("HOPLINE_NODE__JOIN_TIMEOUT", "soon", "expected a number, found 'soon'"),
        ("HOPLINE_NODE__JOIN_TIMEOUT", "1\nx = 2", "expected a number, found '1\\nx = 2'"),
    ],
)
def test_a_variable_that_is_wrong_is_named(variable: str, value: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(None, {variable: value}).network()
    assert str(caught.value).startswith(f"{variable}: {told}")


def test_an_option_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^--address: expected an address"):
        read_configuration(None, {}, {"node.address": given("--address", "x")}).network()


@pytest.mark.parametrize("name", ["address", "unicast_address", "partner_address", "synod"])
def test_addresses_are_read_even_where_every_door_is_open(name: str, tmp_path: Path) -> None:
    said = 'synod = ["x"]\nsynod_address = "x"' if name == "synod" else f'{name} = "x"'
    path = written(tmp_path, f"[rendezvous]\nopen_without_keys = true\n{said}")
    with pytest.raises(ConfigurationError, match=rf"rendezvous\.{name}: expected an address "):
        read_configuration(path, {}).rendezvous()


def test_who_looks_in_for_a_moment_takes_no_port_of_the_node(tmp_path: Path) -> None:
    text = '[node]\naddress = "tcp://*:5101"\nheartbeat_address = "tcp://*:5102"\nopen_without_keys = true'
    network = read_configuration(written(tmp_path, text), {}).client_network()
    assert (network.address, network.heartbeat_address) == ("tcp://*:0", None)


def test_key_files_are_found_beside_the_file_that_names_them(tmp_path: Path) -> None:
    text = '[security]\nkey_file = "keys"\n[[security.domains]]\nname = "orders"'
    path = written(tmp_path, text)
    with pytest.raises(KeyFileError, match="No such file"):
        read_configuration(path, {}).network()
    keys_in(tmp_path, "sales")
    with pytest.raises(KeyFileError, match="there is no key for 'orders'"):
        read_configuration(path, {}).network()
    keys_in(tmp_path, "orders")
    assert read_configuration(path, {}).network().security.domains == ("orders",)
    os.chmod(tmp_path / "keys", 0o644)  # noqa: PTH101
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_configuration(path, {}).network()


def test_keys_for_encryption_come_from_their_files(tmp_path: Path) -> None:
    for name in ("network", "member"):
        write_curve_pair(tmp_path / name, *new_keys())
    path = written(tmp_path, '[curve]\nnetwork_key_file = "network"\nmember_key_file = "member"')
    curve = read_configuration(path, {}).network().curve
    assert curve is not None
    assert curve == read_configuration(path, {}).rendezvous().curve
    (tmp_path / "member").write_text("public x")
    with pytest.raises(KeyFileError, match="expected two lines"):
        read_configuration(path, {}).curve()
    with pytest.raises(KeyFileError, match="the file exists"):
        write_curve_pair(tmp_path / "network", *new_keys())


def test_domains_without_any_signature_keep_the_door_shut(tmp_path: Path) -> None:
    text = '[node]\naddress = "tcp://*:0"\n[[security.domains]]\nname = "public"\nunsigned = true'
    with pytest.raises(ConfigurationError, match="a loopback address, or keys"):
        read_configuration(written(tmp_path, text), {}).network()
