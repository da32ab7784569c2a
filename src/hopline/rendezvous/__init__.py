"""The rendezvous server: what it relays, and the sockets and clocks around it."""

from hopline.rendezvous.address import DEFAULT_RENDEZVOUS, rendezvous_address
from hopline.rendezvous.relay import RelaySettings, RelayStatistics
from hopline.rendezvous.server import RendezvousServer
from hopline.rendezvous.settings import PartnerNetwork, RendezvousSettings

__all__ = [
    "DEFAULT_RENDEZVOUS",
    "PartnerNetwork",
    "RelaySettings",
    "RelayStatistics",
    "RendezvousServer",
    "RendezvousSettings",
    "rendezvous_address",
]
