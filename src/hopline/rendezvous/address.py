"""The addresses of a rendezvous server: the default, and how the others follow from the first."""

from __future__ import annotations

from hopline.cluster import RendezvousAddress
from hopline.transport import one_place, parse

UNICAST_STEP = 10  # by convention a server receives messages so many ports above the one where it publishes
PARTNER_STEP = 110  # and publishes for partner networks so many ports above
DEFAULT_RENDEZVOUS = "tcp://127.0.0.1:8001"


def rendezvous_address(server: str | RendezvousAddress) -> RendezvousAddress:
    """Return the address of a rendezvous server that may be given by its broadcast URI alone.

    Raises:
        ArgumentError: A URI is not a single host and port.
    """
    if not isinstance(server, RendezvousAddress):
        broadcast = one_place(server, "rendezvous")
        unicast_port = broadcast.first_port + UNICAST_STEP
        server = RendezvousAddress(
            broadcast_uri=str(broadcast),
            unicast_uri=f"tcp://{broadcast.host}:{unicast_port}",
        )
    one_place(server.broadcast_uri, "rendezvous")
    one_place(server.unicast_uri, "rendezvous")
    return server


def address_above(requested: str, bound: str, step: int) -> str:
    """Return the address for another socket of a server, so many ports above one that is bound.

    Args:
        requested: The configured address of the bound socket. If its port is zero, so is that of the result.
        bound: The address that the socket got.
        step: The distance between the ports.
    """
    address = parse(bound)
    port = address.first_port + step
    is_any_port = parse(requested).first_port == 0
    if is_any_port:
        port = 0
    return f"tcp://{address.host}:{port}"
