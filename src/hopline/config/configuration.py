"""The configuration of a node or a rendezvous server, ready to be used."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hopline.capture.settings import CaptureSettings
from hopline.config.checking import Values, check_sections, make
from hopline.config.curve_file import read_curve_pair
from hopline.config.errors import ConfigurationError, shown
from hopline.config.origins import (
    DEFAULT_FILE,
    FILE_VARIABLE,
    Given,
    Tree,
    first_origin,
    from_environment,
    from_file,
    merged,
    put,
)
from hopline.config.schema import DomainSection
from hopline.message import LocalError
from hopline.node import Network, NodeSettings, RendezvousSettings
from hopline.security import Domain, DomainSecurity, KeyRing, NoSecurity
from hopline.transport import Curve, parse

MAX_IDENTITY = 255


class Configuration:
    """Checked values. What needs other files (keys) is read when it is asked for, and only what is asked for."""

    def __init__(self, tree: Tree, file: Path | None) -> None:
        self.file = file
        self.key_ring: KeyRing | None = None
        self._tree = tree
        self._sections = check_sections(tree)

    # -- the node ------------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> bytes | None:
        """The identity of the node, if it is told one."""
        text = self._sections["node"].get("identity")
        if text is None:
            return None
        identity = str(text).encode()
        if not 1 <= len(identity) <= MAX_IDENTITY:  # what libzmq can address
            raise self._error("node", "identity", f"expected 1 to {MAX_IDENTITY} bytes, found {shown(text)}")
        return identity

    @property
    def settings(self) -> NodeSettings:
        """The limits of the node."""
        settings: NodeSettings = self._sections["node"].get("settings") or NodeSettings()
        return settings

    def network(self) -> Network:
        """Make the network of a node. Reads the keys."""
        return self._network(self._sections["node"])

    def client_network(self) -> Network:
        """Make the network of somebody who looks in for a moment: on any free port, and not as the node itself."""
        values = dict(self._sections["node"])
        for name in ("heartbeat_address", "embedded"):
            values.pop(name, None)
        if "address" in values:
            with suppress(LocalError):  # whoever makes the network says what is wrong
                values["address"] = f"tcp://{parse(values['address']).host}:0"
        return self._network(values)

    def _network(self, section: Values) -> Network:
        values = {name: value for name, value in section.items() if name not in ("identity", "settings")}
        values |= {"security": self.security(), "curve": self.curve()}
        network: Network = make(Network, values, "node", self._tree.get("node", {}))
        self._require_addresses("node", network, ("address", "heartbeat_address"))
        return network

    def _require_addresses(self, section: str, settings: Network | RendezvousSettings, names: Sequence[str]) -> None:
        """See to it that addresses can be read, also where nothing else looks at them before they are used."""
        for name in names:
            address = getattr(settings, name)
            try:
                if address is not None:
                    parse(address)
            except LocalError as error:
                raise self._error(section, name, f"expected {error.expected}, found {shown(error.found)}") from None

    # -- the rendezvous server -----------------------------------------------------------------------------------------

    def rendezvous(self) -> RendezvousSettings:
        """Make the settings of a rendezvous server. Reads the keys for encryption."""
        values = {**self._sections["rendezvous"], "curve": self.curve()}
        settings: RendezvousSettings = make(RendezvousSettings, values, "rendezvous", self._tree.get("rendezvous", {}))
        names = ("address", "unicast_address", "partner_address", "synod_address")
        self._require_addresses("rendezvous", settings, names)
        return settings

    # -- keys ----------------------------------------------------------------------------------------------------------

    def security(self) -> NoSecurity | DomainSecurity:
        """Make the security of the domains, or none. Reads the key file."""
        sections: list[DomainSection] = self._sections["security"].get("domains", [])
        if not sections:
            if "key_file" in self._sections["security"]:
                raise self._error("security", "key_file", "there are keys, but no [[security.domains]] to use them in")
            return NoSecurity()
        signed = [one.name for one in sections if one.unsigned is not True]
        path = self._path("security", "key_file")
        if signed and path is None:
            problem = f"expected the file that has the keys of {', '.join(signed)}, found nothing"
            raise self._error("security", "key_file", problem)
        self.key_ring = KeyRing(path, domains=signed) if signed and path is not None else None
        domains = [self._domain(index, one) for index, one in enumerate(sections)]
        try:
            return DomainSecurity(domains, clock=time.time, key_ring=self.key_ring)
        except LocalError as error:
            problem = f"expected {error.expected}, found {shown(error.found)}"
            raise self._error("security", "domains", problem) from None

    def _domain(self, index: int, section: DomainSection) -> Domain:
        keys = () if self.key_ring is None or section.unsigned is True else self.key_ring[section.name]
        try:
            return Domain(
                section.name,
                keys,
                section.identities,
                algorithm=section.algorithm,
                profile=section.profile,
                unsigned=section.unsigned,
                refuse_replays=section.refuse_replays,
                window=section.window,
                clock_skew=section.clock_skew,
                replay_capacity=section.replay_capacity,
            )
        except LocalError as error:
            said = first_origin(self._tree["security"]["domains"])
            key = f"security.domains[{index}].{error.field}"
            problem = f"expected {error.expected}, found {shown(error.found)}"
            raise ConfigurationError(said.origin, key, problem) from None

    def curve(self) -> Curve | None:
        """Make the keys for encryption, if there are any. Reads their files."""
        section = self._sections["curve"]
        if not section:
            return None
        paths = {}
        for name in ("network_key_file", "member_key_file"):
            path = self._path("curve", name)
            if path is None:
                raise self._error("curve", name, "expected a file made by `hopline keys curve`, found nothing")
            paths[name] = path
        network_public, network_secret = read_curve_pair(paths["network_key_file"])
        public, secret = read_curve_pair(paths["member_key_file"])
        values = {
            "network_public": network_public,
            "network_secret": network_secret,
            "public": public,
            "secret": secret,
            "admitted": frozenset(str(key).encode() for key in section.get("admitted", ())),
        }
        curve: Curve = make(Curve, values, "curve", self._tree["curve"])
        return curve

    # -- metrics -------------------------------------------------------------------------------------------------------

    def metrics(self) -> tuple[str, int] | None:
        """Give the host and port where Prometheus may ask, if it may."""
        text = self._sections["metrics"].get("address")
        if text is None:
            return None
        host, colon, port = str(text).removeprefix("http://").rpartition(":")
        if not (colon and host and port.isdigit() and int(port) <= 0xFFFF):
            raise self._error("metrics", "address", f"expected host:port, such as 127.0.0.1:9100, found {shown(text)}")
        return host.strip("[]"), int(port)

    # -- capture -------------------------------------------------------------------------------------------------------

    def capture(self) -> CaptureSettings | None:
        """Give where the node may record its traffic, and how much of it; None if nowhere."""
        values = self._sections["capture"]
        if not values:
            return None
        path = self._path("capture", "directory")
        given = values if path is None else {**values, "directory": str(path)}
        settings: CaptureSettings = make(CaptureSettings, given, "capture", self._tree["capture"])
        return settings

    # -- errors and files ----------------------------------------------------------------------------------------------

    def _error(self, section: str, key: str, problem: str) -> ConfigurationError:
        table: Tree = self._tree.get(section, {})
        node = table.get(key, table)
        said = first_origin(node)
        return ConfigurationError(said.origin, f"{section}.{key}" if said.names_key else "", problem)

    def _path(self, section: str, key: str) -> Path | None:
        """Give a path as its origin means it: beside the file that names it, or from where the command runs."""
        text = self._sections[section].get(key)
        if text is None:
            return None
        said = self._tree[section][key]
        path = Path(str(text)).expanduser()
        in_file = self.file is not None and isinstance(said, Given) and said.origin == str(self.file)
        return self.file.parent / path if in_file and self.file is not None else path


def read_configuration(
    path: Path | None, environment: Mapping[str, str], options: Mapping[str, Given] | None = None
) -> Configuration:
    """Read a file, the environment over it, and options over both.

    Without a path it is the file that ``HOPLINE_CONFIG`` names, else ``hopline.toml`` where the command runs, if it is
    there. `options` are named with their dots: ``{"node.address": given("--address", "tcp://127.0.0.1:5101")}``.
    """
    if path is None and FILE_VARIABLE in environment:
        path = Path(environment[FILE_VARIABLE])
    if path is None and Path(DEFAULT_FILE).is_file():
        path = Path(DEFAULT_FILE)
    tree: dict[str, Any] = {} if path is None else from_file(path)
    tree = merged(tree, from_environment(environment))
    for key, value in (options or {}).items():
        put(tree, key.split("."), value)
    return Configuration(tree, path)
