"""The node: hubs, actors and the router put together, the thing that a user starts."""

from hopline.node.context import Context
from hopline.node.middleware import CallNext, Middleware, MiddlewareContext
from hopline.node.network.settings import Network
from hopline.node.node import Node
from hopline.node.report import ActorReport, LinkReport, NetworkReport, NodeReport, StopReport
from hopline.node.routing.router import Router
from hopline.node.settings import NodeSettings
from hopline.node.stats import Stats
from hopline.transport import Link

__all__ = [
    "ActorReport",
    "CallNext",
    "Context",
    "Link",
    "LinkReport",
    "Middleware",
    "MiddlewareContext",
    "Network",
    "NetworkReport",
    "Node",
    "NodeReport",
    "NodeSettings",
    "Router",
    "Stats",
    "StopReport",
]
