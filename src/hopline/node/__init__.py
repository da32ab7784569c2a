"""The node: hubs, actors and the router put together, the thing that a user starts."""

from hopline.node.context import Context
from hopline.node.network.settings import Network
from hopline.node.node import Node, StopReport
from hopline.node.report import ActorReport, LinkReport, NetworkReport, NodeReport
from hopline.node.routing.router import Router
from hopline.node.settings import NodeSettings
from hopline.node.stats import Stats
from hopline.transport import Link

__all__ = [
    "ActorReport",
    "Context",
    "Link",
    "LinkReport",
    "Network",
    "NetworkReport",
    "Node",
    "NodeReport",
    "NodeSettings",
    "Router",
    "Stats",
    "StopReport",
]
