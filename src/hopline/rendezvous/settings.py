"""The settings of a rendezvous server."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hopline.checks import require
from hopline.cluster import LeaseSettings, SynodSettings
from hopline.rendezvous.address import DEFAULT_RENDEZVOUS
from hopline.rendezvous.relay import RelaySettings
from hopline.transport import Curve, SocketSettings, Transport, one_place, require_secure_bind


class PartnerNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Another network whose routes are relayed to the nodes of this one."""

    network_id: str  # the name of the network here
    cluster: Sequence[str]  # the addresses where its servers publish for partners
    allowed_domains: Sequence[str] = ("*",)  # the domains whose routes are relayed; * is all
    silence: float = 15.0  # seconds without a heartbeat before another of its servers is tried


class RendezvousSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a server, the other servers of its synod, and its limits.

    Raises:
        ArgumentError: An address is reachable from other machines without encryption or `open_without_keys`, or
            the synod is incomplete.
    """

    address: str = DEFAULT_RENDEZVOUS  # where it publishes
    unicast_address: str | None = None  # where it receives messages of nodes; by default ten ports above `address`
    partner_address: str | None = None  # where it publishes for partner networks; by default 110 ports above `address`
    advertise: str | None = None  # the host name or IP address under which nodes reach this machine
    synod_address: str | None = None  # the address of this server in `synod`
    synod: Sequence[str] = ()  # the addresses at which the servers elect their leader, this one's included
    open_without_keys: bool = False  # allow addresses that other machines reach without encryption
    relay: RelaySettings = msgspec.field(default_factory=RelaySettings)
    lease: LeaseSettings = msgspec.field(default_factory=LeaseSettings)
    synod_health: SynodSettings = msgspec.field(default_factory=SynodSettings)
    partners: Sequence[PartnerNetwork] = ()  # other networks whose routes are relayed here
    sockets: SocketSettings = msgspec.field(default_factory=SocketSettings)
    curve: Curve | None = None
    transport: Transport | None = None  # by default the one that fits `curve`

    def __post_init__(self) -> None:
        is_protected = self.open_without_keys or self.curve is not None
        addresses = {
            "address": self.address,
            "unicast_address": self.unicast_address,
            "partner_address": self.partner_address,
            "synod_address": self.synod_address,
        }
        for field, address in addresses.items():
            if address is not None:
                require_secure_bind(address, field, is_protected=is_protected)
        # With an address and no members it would lead alone, and so would each of the others.
        has_members = self.synod_address is None or bool(self.synod)
        require(has_members, "synod", "all members, this server included, where there is a synod_address", None)
        is_member = not self.synod or self.synod_address in self.synod
        require(is_member, "synod_address", "one of the members in synod", self.synod_address)
        for member in self.synod:
            one_place(member, "synod")
        for partner in self.partners:
            for uri in partner.cluster:
                one_place(uri, "partners")
