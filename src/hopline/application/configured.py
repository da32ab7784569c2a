"""Nodes as a configuration describes them: what `Node.from_config` and ``hopline node`` have in common."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from hopline.actors import Actor
from hopline.config import Configuration, read_configuration
from hopline.metrics import MetricsServer, NodeCollector, node_readiness
from hopline.node import Middleware, Network, Node
from hopline.node.node import Lifespan
from hopline.observers.dead_letters import DeadLetter
from hopline.routing import MessageOutcome

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

NodeType = TypeVar("NodeType", bound=Node)


@dataclass(frozen=True, slots=True)
class ConfiguredNode(Generic[NodeType]):
    """A node, its network, and the endpoint of its metrics if there is one, which serves while the node runs."""

    node: NodeType
    network: Network
    metrics: MetricsServer | None


def found_configuration(path: str | os.PathLike[str] | None) -> Configuration:
    """Return the configuration of a file, by default of the one that commands find, and of the environment."""
    return read_configuration(None if path is None else Path(path), os.environ)


def configured_node(
    configuration: Configuration,
    *actors: Actor,
    node_type: type[NodeType],
    middleware: Iterable[Middleware] = (),
    lifespan: Lifespan | None = None,
    on_outcome: Callable[[MessageOutcome], None] | None = None,
    on_dead_letter: Callable[[DeadLetter], object] | None = None,
    tracer_provider: TracerProvider | None = None,
) -> ConfiguredNode[NodeType]:
    """Return a node as its configuration describes it. Reads the key files.

    Raises:
        ConfigurationError: For the first value that cannot be used, and for a directory that cannot be recorded in.
    """
    network = configuration.network()
    node = node_type(
        *actors,
        identity=configuration.identity,
        settings=configuration.settings,
        network=network,
        capture=configuration.writable_capture(),
        middleware=middleware,
        on_outcome=on_outcome,
        on_dead_letter=on_dead_letter,
        tracer_provider=tracer_provider,
    )
    address = configuration.metrics()
    metrics = None if address is None else MetricsServer(NodeCollector(node), *address, readiness=node_readiness(node))
    node.lifespan = lifespan if metrics is None else _with_metrics(metrics, lifespan)
    return ConfiguredNode(node, network, metrics)


def _with_metrics(metrics: MetricsServer, lifespan: Lifespan | None) -> Lifespan:
    """Return a lifespan that also serves metrics: from the beginning, for the port may be in use."""

    @asynccontextmanager
    async def both(node: Node) -> AsyncIterator[None]:
        async with metrics, nullcontext() if lifespan is None else lifespan(node):
            yield

    return both
