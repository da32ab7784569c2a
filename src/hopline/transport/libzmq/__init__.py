"""Sockets of libzmq, driven by the event loop: for encryption by CURVE. The only package that imports zmq."""

from hopline.transport.libzmq.transport import ZmqTransport

__all__ = ["ZmqTransport"]
