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
        self._check_servers()
        require_numbers(self, _ACCEPTED)
        has_keys = self.curve is not None or _has_keys(self.security)
        is_protected = has_keys or self.open_without_keys
        require_secure_bind(self.address, "address", is_protected=is_protected)
        if self.heartbeat_address is not None:
            require_secure_bind(self.heartbeat_address, "heartbeat_address", is_protected=is_protected)

    def _check_servers(self) -> None:
        is_list = not isinstance(self.rendezvous, str)
        require(is_list, "rendezvous", "a list of servers", self.rendezvous)
        servers = list(self.rendezvous)
        require(bool(servers), "rendezvous", "at least one server", servers)
        is_ambiguous = self.embedded and len(servers) > 1
        require(
            not is_ambiguous,
            "rendezvous",
            "one server, which is this node's own or another's",
            servers,
        )
        for server in servers:
            rendezvous_address(server)  # raises for an address that cannot be connected to

    @property
    def servers(self) -> list[RendezvousAddress]:
        """The rendezvous servers with both their addresses."""
        return [rendezvous_address(server) for server in self.rendezvous]


_ACCEPTED = {
    "join_timeout": DURATION_OR_NONE,
    "linger_timeout": DURATION_OR_NONE,
}


def _has_keys(security: Security) -> bool:
    """Return whether anything is signed: if all domains are unsigned, every node is let in."""
    if isinstance(security, DomainSecurity):
        is_unsigned = [domain.unsigned is True for domain in security.definitions]
        return not all(is_unsigned)
    return not isinstance(security, NoSecurity)
