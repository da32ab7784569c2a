"""How a node takes part in a network: where it listens, whom it follows, whom it trusts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from hopline.cluster import ClusterSettings, RendezvousAddress
from hopline.message import LocalError, WireFormat
from hopline.security import DomainSecurity, NoSecurity, Security
from hopline.transport import Curve, SocketSettings, Transport, one_place, parse
from hopline.wire import DEFAULT_LIMITS, Limits

UNICAST_STEP = 10  # by convention a rendezvous server takes messages so many ports above where it publishes
PARTNER_STEP = 110  # and publishes for partner networks here
ANYWHERE_HERE = "tcp://127.0.0.1:0"
DEFAULT_RENDEZVOUS = "tcp://127.0.0.1:8001"


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a node needs to find others and be found.

    A rendezvous server is named by the address at which it publishes, and takes messages ten ports above, or by a
    `RendezvousAddress`. Without keys a node is reached from its own machine only, unless `open_without_keys` says that
    the network around is trusted.
    """

    rendezvous: Sequence[str | RendezvousAddress] = (DEFAULT_RENDEZVOUS,)  # the servers, by where they publish
    embedded: bool = False  # for development: serve as the rendezvous, as long as nobody else does
    address: str = ANYWHERE_HERE  # where others send messages to; a range of ports is tried in order
    heartbeat_address: str | None = None  # where others listen for signs of life; by default another port of that host
    advertise: str | None = None  # the host name or address that others know this machine by
    wire_format: WireFormat | None = None  # pins one; left out: V5 to begin with, and V6 among Hopline nodes
    security: Security = msgspec.field(default_factory=NoSecurity)
    open_without_keys: bool = False  # reachable from other machines without keys: everybody around is trusted
    join_time: float = 3.0  # how long starting waits for a rendezvous server, before it goes on without
    goodbye_time: float = 1.0  # how long stopping lets the last messages leave
    cluster: ClusterSettings = msgspec.field(default_factory=ClusterSettings)
    sockets: SocketSettings = msgspec.field(default_factory=SocketSettings)
    limits: Limits = DEFAULT_LIMITS
    curve: Curve | None = None
    transport: Transport | None = None  # what carries it all; chosen by itself, unless one is given

    def __post_init__(self) -> None:
        if isinstance(self.rendezvous, str):
            raise LocalError("rendezvous", "a list of servers", self.rendezvous)
        if not self.rendezvous or (self.embedded and len(self.rendezvous) > 1):
            expected = "one server, which is this node's own or another's" if self.embedded else "at least one server"
            raise LocalError("rendezvous", expected, list(self.rendezvous))
        self.servers  # noqa: B018 - names what nobody can connect to
        for field in ("join_time", "goodbye_time"):
            if not 0 <= getattr(self, field) < math.inf:
                raise LocalError(field, "seconds, not below zero", getattr(self, field))
        for field in ("address", "heartbeat_address"):
            address = getattr(self, field)
            if address is not None:
                refuse_open_door(address, self.security, self.curve, is_open=self.open_without_keys, field=field)

    @property
    def servers(self) -> list[RendezvousAddress]:
        """The rendezvous servers with both their addresses."""
        return [rendezvous_address(one) for one in self.rendezvous]


def rendezvous_address(server: str | RendezvousAddress) -> RendezvousAddress:
    """Give both addresses of a rendezvous server that may be named by one."""
    if not isinstance(server, RendezvousAddress):
        address = one_place(server, "rendezvous")
        server = RendezvousAddress(str(address), f"tcp://{address.host}:{address.first_port + UNICAST_STEP}")
    for uri in (server.broadcast_uri, server.unicast_uri):
        one_place(uri, "rendezvous")
    return server


def refuse_open_door(
    address: str, security: Security, curve: Curve | None, *, is_open: bool, field: str = "address"
) -> None:
    """Refuse to listen where others can reach it when nothing tells friend from foe."""
    if not (is_open or curve is not None or _has_keys(security) or parse(address, field).is_loopback):
        raise LocalError(
            field,
            "a loopback address, or keys, or open_without_keys = true if everybody around is trusted",
            address,
        )


def _has_keys(security: Security) -> bool:
    """Tell whether anything is signed: domains that are all unsigned keep nobody out."""
    if isinstance(security, DomainSecurity):
        return any(domain.unsigned is not True for domain in security.definitions)
    return not isinstance(security, NoSecurity)
