"""Applications: nodes as a configuration describes them, and a client for programs without an event loop."""

from hopline.application.blocking import Client, connect

__all__ = ["Client", "connect"]
