"""The settings of a rendezvous server: their names, their defaults, what they are for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hopline.checks import require
from hopline.cluster import LeaseSettings, SynodSettings
from hopline.rendezvous.address import DEFAULT_RENDEZVOUS
from hopline.rendezvous.relay import RelaySettings
from hopline.transport import Curve, SocketSettings, Transport, one_place, require_secure_bind


class PartnerNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Another network whose routes are let in: where its servers publish for partners, and which domains concern us."""

    network_id: str  # what it is called here
    cluster: Sequence[str]  # where its servers publish for partners
    allowed_domains: Sequence[str] = ("*",)  # whose routes are let in; * is all
    silence: float = 15.0  # seconds without a sign of life, before another of its servers is listened to


class RendezvousSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens and publishes, and with whom it shares the leadership."""

    address: str = DEFAULT_RENDEZVOUS  # where it publishes
    unicast_address: str | None = None  # where nodes send to; by default ten ports above
    partner_address: str | None = None  # where it publishes for partner networks; by default 110 ports above
    advertise: str | None = None  # the host name or address that nodes know this machine by
    synod_address: str | None = None  # which of the members this server is
    synod: Sequence[str] = ()  # the addresses at which the servers talk to each other, this one's included
    open_without_keys: bool = False  # reachable from other machines without encryption: everybody around is trusted
    relay: RelaySettings = msgspec.field(default_factory=RelaySettings)
    lease: LeaseSettings = msgspec.field(default_factory=LeaseSettings)
    synod_health: SynodSettings = msgspec.field(default_factory=SynodSettings)
    partners: Sequence[PartnerNetwork] = ()  # other networks whose routes are let in
    sockets: SocketSettings = msgspec.field(default_factory=SocketSettings)
    curve: Curve | None = None
    transport: Transport | None = None  # what carries it all; chosen by itself, unless one is given

    def __post_init__(self) -> None:
        is_protected = self.open_without_keys or self.curve is not None
        for field in ("address", "unicast_address", "partner_address", "synod_address"):
            address = getattr(self, field)
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
