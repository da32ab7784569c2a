"""ZMTP over TCP on the event loop: no thread, and no queue below the ones that are counted."""

from hopline.transport.tcp.transport import TcpTransport

__all__ = ["TcpTransport"]
