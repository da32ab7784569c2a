"""Names of actors: what nodes announce are identities, and only a node itself knows which class is behind one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from hopline.cli.client import stats_of
from hopline.cli.names import name_of, shortened
from hopline.client import MessageHub
from hopline.message import MessageIdentifier, printable_name
from hopline.node.report import ActorReport
from hopline.routing import KnownNode


class ActorNames:
    """Learns the actors of nodes by asking these, each once for the same actors.

    A node of the reference does not answer; its actors are shown by their identities alone.
    """

    def __init__(self) -> None:
        self._reports: dict[bytes, ActorReport] = {}  # by the actor's identity
        self._asked: dict[bytes, frozenset[bytes]] = {}  # by node: the actors that it was asked for

    async def learn(self, hub: MessageHub, nodes: Iterable[KnownNode]) -> None:
        """Ask the nodes that have actors which they were not asked for yet."""
        asking = [node for node in nodes if frozenset(node.actors) - self._asked.get(node.identity, frozenset())]
        reports = await asyncio.gather(*(stats_of(hub, node.identity) for node in asking))
        for node, report in zip(asking, reports, strict=True):
            self._asked[node.identity] = frozenset(node.actors)
            if report is not None:
                self._reports.update((actor.identity, actor) for actor in report.actors)

    def document_of(self, actor: bytes, kind: MessageIdentifier) -> dict[str, Any]:
        """Return what is known of an actor that handles a kind of message."""
        report = self._reports.get(actor)
        return {"identity": name_of(actor), **({} if report is None else named(report, kind))}


def named(report: ActorReport, kind: MessageIdentifier) -> dict[str, Any]:
    """Return the class of an actor, and its handler for a kind of message where its node says so."""
    handlers = dict(zip(report.handles, report.handlers, strict=False))
    handler = handlers.get(kind)
    return {"name": printable_name(report.name), **({} if handler is None else {"handler": printable_name(handler)})}


def who(actor: dict[str, Any]) -> str:
    """Write an actor of such a document: ``Greeter.greet 1c2d3e4f``, as far as it is known."""
    name = ".".join(actor[part] for part in ("name", "handler") if part in actor)
    return f"{name} {shortened(actor['identity'])}".strip()
