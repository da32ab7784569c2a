"""The sockets that a node binds: one that other nodes send to, and one that publishes its heartbeats."""

from __future__ import annotations

from hopline.message import ArgumentError, BindError
from hopline.node.network.settings import Network
from hopline.transport import Transport, advertised, open_transport, parse

_HEARTBEAT_CAPACITY = 1_000


class NodeSockets:
    """Binds the sockets of a node, or none of them if one address is not available."""

    def __init__(self, identity: bytes, network: Network) -> None:
        self.transport: Transport = network.transport or open_transport(network.sockets, network.curve)
        try:
            self.listener = self.transport.listener(network.address, "address", identity=identity)
            self.uri = advertised(self.listener.uri, network.advertise)
        except (ArgumentError, BindError):
            self.transport.close()
            raise
        heartbeat_address = network.heartbeat_address or f"tcp://{parse(network.address).host}:0"
        try:
            self.heartbeats, health_uri = self.transport.publisher(
                heartbeat_address, "heartbeat_address", _HEARTBEAT_CAPACITY
            )
            self.health_uri = advertised(health_uri, network.advertise)
        except (ArgumentError, BindError):
            self.listener.close()
            self.transport.close()
            raise
