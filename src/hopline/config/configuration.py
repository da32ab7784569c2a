"""The configuration of a node or a rendezvous server, and the settings that are made of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hopline.capture.settings import CaptureSettings
from hopline.config.checking import Values, check_sections, expected_and_found, make
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
from hopline.message import ArgumentError
from hopline.node import Network, NodeSettings
from hopline.rendezvous import RendezvousSettings
from hopline.security import Domain, DomainSecurity, KeyRing, NoSecurity
from hopline.transport import Curve, parse

MAX_IDENTITY = 255
MAX_PORT = 65535


class Configuration:
    """The checked values of a file, the environment and the command line.

    Key files are read when the settings that need them are made.
    """

    def __init__(self, tree: Tree, file: Path | None) -> None:
        self.file = file
        self.key_ring: KeyRing | None = None
        self._tree = tree
        self._sections = check_sections(tree)

    # -- the node ------------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> bytes | None:
        """The identity of the node, or None for a generated one."""
        text = self._sections["node"].get("identity")
        if text is None:
            return None
        identity = str(text).encode()
        if not 1 <= len(identity) <= MAX_IDENTITY:  # the limit of ZeroMQ
            problem = f"expected 1 to {MAX_IDENTITY} bytes, found {shown(text)}"
            raise self._error("node", "identity", problem)
        return identity

    @property
    def settings(self) -> NodeSettings:
        """The limits and timeouts of the node."""
        settings: NodeSettings = self._sections["node"].get("settings") or NodeSettings()
        return settings

    def network(self) -> Network:
        """Return the network settings of a node. Reads the key files."""
        return self._network(self._sections["node"])

    def client_network(self) -> Network:
        """Return the network settings of a short-lived client, which listens on any free port. Reads the key files."""
        values = dict(self._sections["node"])
        for name in ("heartbeat_address", "embedded"):
            values.pop(name, None)
        if "address" in values:
            with suppress(ArgumentError):  # a wrong address is reported when the settings are made
                address = parse(values["address"])
                values["address"] = f"tcp://{address.host}:0"
        return self._network(values)

    def _network(self, section: Values) -> Network:
        values = dict(section)
        for name in ("identity", "settings"):  # arguments of the node itself
            values.pop(name, None)
        values["security"] = self.security()
        values["curve"] = self.curve()
        given = self._tree.get("node", {})
        network: Network = make(Network, values, "node", given)
        self._require_addresses("node", network, ("address", "heartbeat_address"))
        return network

    def _require_addresses(self, section: str, settings: Network | RendezvousSettings, names: Sequence[str]) -> None:
        """Raise `ConfigurationError` for an address that cannot be parsed, before anything is started."""
        for name in names:
            address = getattr(settings, name)
            if address is None:
                continue
            try:
                parse(address)
            except ArgumentError as error:
                problem = expected_and_found(error)
                raise self._error(section, name, problem) from None

    # -- the rendezvous server -----------------------------------------------------------------------------------------

    def rendezvous(self) -> RendezvousSettings:
        """Return the settings of a rendezvous server. Reads the key files of encryption."""
        values = dict(self._sections["rendezvous"])
        values["curve"] = self.curve()
        given = self._tree.get("rendezvous", {})
        settings: RendezvousSettings = make(RendezvousSettings, values, "rendezvous", given)
        names = ("address", "unicast_address", "partner_address", "synod_address")
        self._require_addresses("rendezvous", settings, names)
        return settings

    # -- keys ----------------------------------------------------------------------------------------------------------

    def security(self) -> NoSecurity | DomainSecurity:
        """Return the signature settings of all domains. Reads the key file."""
        values = self._sections["security"]
        sections: list[DomainSection] = values.get("domains", [])
        if not sections:
            if "key_file" in values:
                raise self._error("security", "key_file", "there are keys, but no [[security.domains]] that uses them")
            return NoSecurity()
        self.key_ring = self._key_ring(sections)
        domains = [self._domain(index, section) for index, section in enumerate(sections)]
        try:
            return DomainSecurity(domains, clock=time.time, key_ring=self.key_ring)
        except ArgumentError as error:
            problem = expected_and_found(error)
            raise self._error("security", "domains", problem) from None

    def _key_ring(self, sections: Sequence[DomainSection]) -> KeyRing | None:
        """Return the keys of the domains that are signed, or None if there are no such domains."""
        signed = [section.name for section in sections if section.unsigned is not True]
        if not signed:
            return None
        path = self._path("security", "key_file")
        if path is None:
            names = ", ".join(signed)
            problem = f"expected the file that has the keys of {names}, found nothing"
            raise self._error("security", "key_file", problem)
        return KeyRing(path, domains=signed)

    def _domain(self, index: int, section: DomainSection) -> Domain:
        is_signed = section.unsigned is not True
        keys = self.key_ring[section.name] if is_signed and self.key_ring is not None else ()
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
        except ArgumentError as error:
            domains = self._tree["security"]["domains"]
            origin = first_origin(domains).origin
            key = f"security.domains[{index}].{error.field}"
            raise ConfigurationError(origin, key, expected_and_found(error)) from None

    def curve(self) -> Curve | None:
        """Return the keys of encryption, or None if it is not configured. Reads the key files."""
        section = self._sections["curve"]
        if not section:
            return None
        network_file = self._curve_file("network_key_file")
        member_file = self._curve_file("member_key_file")
        network_public, network_secret = read_curve_pair(network_file)
        public, secret = read_curve_pair(member_file)
        admitted = section.get("admitted", ())
        values = {
            "network_public": network_public,
            "network_secret": network_secret,
            "public": public,
            "secret": secret,
            "admitted": frozenset(str(key).encode() for key in admitted),
        }
        curve: Curve = make(Curve, values, "curve", self._tree["curve"])
        return curve

    def _curve_file(self, name: str) -> Path:
        path = self._path("curve", name)
        if path is None:
            raise self._error("curve", name, "expected a file made by `hopline keys curve`, found nothing")
        return path

    # -- metrics -------------------------------------------------------------------------------------------------------

    def metrics(self) -> tuple[str, int] | None:
        """Return the host and port of the endpoint for Prometheus, or None if there is none."""
        text = self._sections["metrics"].get("address")
        if text is None:
            return None
        host, _, port = str(text).removeprefix("http://").rpartition(":")
        is_port = port.isdigit() and int(port) <= MAX_PORT
        if not (host and is_port):
            problem = f"expected host:port, such as 127.0.0.1:9100, found {shown(text)}"
            raise self._error("metrics", "address", problem)
        return host.strip("[]"), int(port)

    # -- capture -------------------------------------------------------------------------------------------------------

    def capture(self) -> CaptureSettings | None:
        """Return the capture settings, or None if the node has no capture directory."""
        section = self._sections["capture"]
        if not section:
            return None
        values = dict(section)
        path = self._path("capture", "directory")
        if path is not None:
            values["directory"] = str(path)
        settings: CaptureSettings = make(CaptureSettings, values, "capture", self._tree["capture"])
        return settings

    def writable_capture(self) -> CaptureSettings | None:
        """Return the capture settings. Create the directory, which a running node could only miss in its log.

        Raises:
            ConfigurationError: The directory cannot be created, or not be written to.
        """
        settings = self.capture()
        if settings is None:
            return None
        directory = Path(settings.directory)
        expected = f"expected a directory to record in, found {directory}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._error("capture", "directory", f"{expected}: {error}") from None
        if not os.access(directory, os.W_OK | os.X_OK):
            raise self._error("capture", "directory", f"{expected}: not writable")
        return settings

    # -- errors and files ----------------------------------------------------------------------------------------------

    def _error(self, section: str, key: str, problem: str) -> ConfigurationError:
        table: Tree = self._tree.get(section, {})
        node = table.get(key, table)
        given = first_origin(node)
        path = f"{section}.{key}" if given.names_key else ""
        return ConfigurationError(given.origin, path, problem)

    def _path(self, section: str, key: str) -> Path | None:
        """Return a path: relative to the file that names it, otherwise to the current directory."""
        text = self._sections[section].get(key)
        if text is None:
            return None
        path = Path(str(text)).expanduser()
        given = self._tree[section][key]
        if self.file is None or not isinstance(given, Given):
            return path
        is_from_file = given.origin == str(self.file)
        if not is_from_file:
            return path
        return self.file.parent / path


def read_configuration(
    path: Path | None, environment: Mapping[str, str], options: Mapping[str, Given] | None = None
) -> Configuration:
    """Read a configuration.

    Args:
        path: The file. By default, the one that ``HOPLINE_CONFIG`` names, or ``hopline.toml`` in the current directory
            if it exists.
        environment: Overrides the file.
        options: Override both; by key, as in ``{"node.address": given("--address", "tcp://127.0.0.1:5101")}``.

    Raises:
        ConfigurationError: For the first value that cannot be used.
    """
    if path is None and FILE_VARIABLE in environment:
        path = Path(environment[FILE_VARIABLE])
    if path is None and Path(DEFAULT_FILE).is_file():
        path = Path(DEFAULT_FILE)
    tree: Tree = {} if path is None else from_file(path)
    tree = merged(tree, from_environment(environment))
    for key, value in (options or {}).items():
        put(tree, key.split("."), value)
    return Configuration(tree, path)
