"""Whether a node or a rendezvous server is ready, and why not: for the probes of whatever runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hopline.node.node import Node
from hopline.rendezvous.server import RendezvousServer

Readiness: TypeAlias = Callable[[], str]
"""Returns why something is not ready; an empty text if it is."""


def always_ready() -> str:
    """Return the readiness of something that is always ready."""
    return ""


def node_readiness(node: Node) -> Readiness:
    """Return the readiness of a node: others can find it, because a server has relayed all of its announcements."""

    def why_not() -> str:
        if not node.is_running:
            return "the node has not started"
        if node.is_starting:
            return "its actors have not all started"
        if node.is_stopping:
            return "the node is stopping"
        if node.network is None:
            return ""
        if not node.is_joined:
            return "no rendezvous server is heard"
        membership = node.membership
        if membership is None or not membership.is_confirmed:
            return "no rendezvous server has relayed all announcements of this node yet"
        return ""

    return why_not


def rendezvous_readiness(server: RendezvousServer) -> Readiness:
    """Return the readiness of a rendezvous server: it leads, or knows who does."""

    def why_not() -> str:
        if not server.is_running:
            return "the server has not started"
        if server.lease is None:
            return "no server leads"
        return ""

    return why_not
