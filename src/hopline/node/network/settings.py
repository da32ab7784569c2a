"""The settings of a node's network: its addresses, its rendezvous servers, its security."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hopline.checks import DURATION_OR_NONE, require, require_numbers
from hopline.cluster import ClusterSettings, RendezvousAddress
from hopline.message import WireFormat
from hopline.rendezvous.address import DEFAULT_RENDEZVOUS, rendezvous_address
from hopline.security import DomainSecurity, NoSecurity, Security
from hopline.transport import Curve, SocketSettings, Transport, require_secure_bind
from hopline.wire import DEFAULT_LIMITS, Limits

ANYWHERE_HERE = "tcp://127.0.0.1:0"


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a node needs to join a network.

    A rendezvous server is given by the address at which it publishes, and then receives ten ports above; or by a
    `RendezvousAddress`. Without keys a node is reachable from its own machine only, unless `open_without_keys` is set.
    """

    rendezvous: Sequence[str | RendezvousAddress] = (DEFAULT_RENDEZVOUS,)  # the servers, by where they publish
    embedded: bool = False  # for development: run the rendezvous server in a node, unless another node does
    address: str = ANYWHERE_HERE  # where other nodes send to; of a range of ports the first free one is bound
    heartbeat_address: str | None = None  # where heartbeats are published; by default another port of that host
    advertise: str | None = None  # the host name or address by which other machines reach this one
    wire_format: WireFormat | None = None  # always use this one; by default V5 at first, and V6 among Hopline nodes
    security: Security = msgspec.field(default_factory=NoSecurity)
    open_without_keys: bool = False  # reachable from other machines without keys, for trusted networks
    join_timeout: float = 3.0  # how long starting waits for a rendezvous server before it goes on without
    linger_timeout: float = 1.0  # how long the last messages have to leave when the node stops
    cluster: ClusterSettings = msgspec.field(default_factory=ClusterSettings)
    sockets: SocketSettings = msgspec.field(default_factory=SocketSettings)
    limits: Limits = DEFAULT_LIMITS
    curve: Curve | None = None
    transport: Transport | None = None  # chosen by the other settings unless it is given

    def __post_init__(self) -> None:
        require(not isinstance(self.rendezvous, str), "rendezvous", "a list of servers", self.rendezvous)
        servers = list(self.rendezvous)
        require(bool(servers), "rendezvous", "at least one server", servers)
        has_one_if_embedded = not self.embedded or len(servers) == 1
        require(has_one_if_embedded, "rendezvous", "one server, which is this node's own or another's", servers)
        self.servers  # noqa: B018 - names what nobody can connect to
        require_numbers(self, {"join_timeout": DURATION_OR_NONE, "linger_timeout": DURATION_OR_NONE})
        is_protected = self.open_without_keys or self.curve is not None or _has_keys(self.security)
        for field in ("address", "heartbeat_address"):
            address = getattr(self, field)
            if address is not None:
                require_secure_bind(address, field, is_protected=is_protected)

    @property
    def servers(self) -> list[RendezvousAddress]:
        """The rendezvous servers with both their addresses."""
        return [rendezvous_address(server) for server in self.rendezvous]


def _has_keys(security: Security) -> bool:
    """Return whether anything is signed: if all domains are unsigned, every node is let in."""
    if isinstance(security, DomainSecurity):
        return any(domain.unsigned is not True for domain in security.definitions)
    return not isinstance(security, NoSecurity)
