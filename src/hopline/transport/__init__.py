"""Sockets of libzmq, driven by the event loop. The only package that imports zmq."""

import zmq

from hopline.transport.address import Address, advertised, one_place, parse, resolve
from hopline.transport.backend import Backend, OnSent, PeerLink
from hopline.transport.condition import Condition
from hopline.transport.curve import Curve, new_keys
from hopline.transport.doorkeeper import doorkeeper
from hopline.transport.handshakes import Handshakes
from hopline.transport.inlet import Inlet
from hopline.transport.outlet import Outlet
from hopline.transport.settings import SocketSettings
from hopline.transport.sockets import Frames, bind, connect, open_socket

ROUTER, DEALER, PUB, SUB = int(zmq.ROUTER), int(zmq.DEALER), int(zmq.PUB), int(zmq.SUB)

__all__ = [
    "DEALER",
    "PUB",
    "ROUTER",
    "SUB",
    "Address",
    "Backend",
    "Condition",
    "Curve",
    "Frames",
    "Handshakes",
    "Inlet",
    "OnSent",
    "Outlet",
    "PeerLink",
    "SocketSettings",
    "advertised",
    "bind",
    "connect",
    "doorkeeper",
    "new_keys",
    "one_place",
    "open_socket",
    "parse",
    "resolve",
]
