"""Where sockets are: ``tcp://host:port``, with ranges of ports to bind to and names to look up."""

from __future__ import annotations

import ipaddress
import re
import socket

import msgspec

from hopline.message import ArgumentError

ANY_PORT = 0
_ADDRESS = re.compile(
    r"tcp://(?P<host>\[[0-9A-Fa-f:.%]+\]|\*|[A-Za-z0-9][A-Za-z0-9._-]*):(?P<first>\*|\d{1,5})(?:-(?P<last>\d{1,5}))?/?"
)
_MAX_PORT = 0xFFFF
_EVERYWHERE = frozenset({"*", "0.0.0.0", "[::]"})  # noqa: S104 - recognised, not bound


class Address(msgspec.Struct, frozen=True):
    """Where to bind or to connect: a host and a range of ports, which is one port most of the time."""

    host: str
    first_port: int
    last_port: int

    def __str__(self) -> str:
        ports = f"{self.first_port}" if self.first_port == self.last_port else f"{self.first_port}-{self.last_port}"
        return f"tcp://{self.host}:{ports}"

    @property
    def candidates(self) -> list[str]:
        """The addresses to try, one after the other; port 0 lets the system choose."""
        return [f"tcp://{self.host}:{port or '*'}" for port in range(self.first_port, self.last_port + 1)]

    @property
    def is_one_place(self) -> bool:
        """Return whether it can be connected to: one port of one host."""
        return 0 < self.first_port == self.last_port and not self.is_everywhere

    @property
    def is_numeric(self) -> bool:
        """Return whether the host is an IP address."""
        try:
            ipaddress.ip_address(self.host.strip("[]"))
        except ValueError:
            return False
        return True

    @property
    def is_everywhere(self) -> bool:
        """Return whether it means every interface of the machine; peers need another address then."""
        return self.host in _EVERYWHERE

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        if self.is_everywhere:
            return False
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse(text: str, field: str = "address") -> Address:
    """Read an address such as ``tcp://127.0.0.1:5101`` or ``tcp://*:5101-5130``."""
    expected = "an address such as tcp://127.0.0.1:5101, or with a range of ports, tcp://127.0.0.1:5101-5130"
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ArgumentError(field, expected, text)
    first = ANY_PORT if match["first"] == "*" else int(match["first"])
    last = first if match["last"] is None else int(match["last"])
    if not first <= last <= _MAX_PORT:
        raise ArgumentError(field, f"ports up to {_MAX_PORT}, the smaller one first", text)
    return Address(match["host"], first, last)


def one_place(text: str, field: str = "address") -> Address:
    """Read an address that can be connected to."""
    expected = "an address to connect to, with one host and one port, such as tcp://127.0.0.1:8001"
    if _ADDRESS.fullmatch(text) is None:
        raise ArgumentError(field, expected, text)
    address = parse(text, field)
    if not address.is_one_place:
        raise ArgumentError(field, expected, text)
    return address


def resolve(text: str, field: str = "address") -> str:
    """Return an address with its host name resolved, as peers compare them: ``tcp://<ip>:<port>``."""
    address = parse(text, field)
    return f"tcp://{look_up(own_name() if address.is_everywhere else address.host, field)}:{address.first_port}"


def resolved(text: str) -> str:
    """Return an address with its name looked up, or as it is if nobody knows the name."""
    try:
        return resolve(text)
    except ArgumentError:
        return text


def can_connect(text: str) -> bool:
    """Return whether to connect to an address that a stranger announced: one place, and no name to look up."""
    try:
        address = parse(text)
    except ArgumentError:
        return False
    return address.is_one_place and address.is_numeric and str(address) == text


def advertised(bound: str, advertise: str | None = None) -> str:
    """Return the address to announce to peers, for the one that a socket is bound to."""
    address = parse(bound)
    if advertise is not None:
        host = look_up(parse(f"tcp://{advertise}:1", "advertise").host, "advertise")
    elif address.is_everywhere:
        host = look_up(own_name(), "advertise")
    else:
        host = address.host
    return f"tcp://{host}:{address.first_port}"


def own_name() -> str:
    """Return the host name of this machine."""
    return socket.gethostname()


def look_up(host: str, field: str) -> str:
    """Return the IP address of a host name."""
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        pass
    if host.startswith("["):
        return host
    try:
        # The reference knows IPv4 only; a host that has no such address is taken as it is.
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise ArgumentError(field, "a host name that can be looked up", host) from error
    return str(found[0][4][0])
