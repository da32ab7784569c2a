"""Where rendezvous servers are by default, and how one that is named by a single address is found."""

from __future__ import annotations

from hopline.cluster import RendezvousAddress
from hopline.transport import one_place

UNICAST_STEP = 10  # by convention a server takes messages so many ports above the one where it publishes
PARTNER_STEP = 110  # and publishes for partner networks so many ports above
DEFAULT_RENDEZVOUS = "tcp://127.0.0.1:8001"


def rendezvous_address(server: str | RendezvousAddress) -> RendezvousAddress:
    """Return both addresses of a rendezvous server that may be named by one."""
    if not isinstance(server, RendezvousAddress):
        address = one_place(server, "rendezvous")
        server = RendezvousAddress(str(address), f"tcp://{address.host}:{address.first_port + UNICAST_STEP}")
    for uri in (server.broadcast_uri, server.unicast_uri):
        one_place(uri, "rendezvous")
    return server
