"""Metrics of nodes and rendezvous servers for Prometheus."""

from hopline.metrics.collectors import NodeCollector, RendezvousCollector
from hopline.metrics.readiness import node_readiness, rendezvous_readiness
from hopline.metrics.server import MetricsError, MetricsServer

__all__ = [
    "MetricsError",
    "MetricsServer",
    "NodeCollector",
    "RendezvousCollector",
    "node_readiness",
    "rendezvous_readiness",
]
