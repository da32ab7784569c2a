"""Metrics of nodes and rendezvous servers for Prometheus."""

from hopline.metrics.collectors import NodeCollector, RendezvousCollector
from hopline.metrics.server import MetricsError, MetricsServer

__all__ = ["MetricsError", "MetricsServer", "NodeCollector", "RendezvousCollector"]
