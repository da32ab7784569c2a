"""Readable names for actors.

Nodes announce actors by generated identities only. The class and the handlers of an actor are known to its own node,
which is asked for them by `hopline routes`. A node of the reference does not answer; its actors keep their identities.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from hopline.actors.handler import definitions_of
from hopline.cli.client import request_stats
from hopline.cli.identifiers import identity_text, shorten_identity
from hopline.client import MessageHub
from hopline.message import MessageIdentifier, printable_name
from hopline.node.introspection import Introspection
from hopline.node.report import ActorReport
from hopline.routing import KnownNode
from hopline.schemas.fingerprint import fingerprint_text

# What the actor that every node has handles; it is not among the actors that a node reports.
_BUILT_IN = frozenset(definition.identifier for definition in definitions_of(Introspection))


class ActorLabels:
    """Caches what nodes report about their actors, so that a repeated view asks only about new actors."""

    def __init__(self) -> None:
        self._reports: dict[bytes, ActorReport] = {}  # by actor identity
        self._requested: dict[bytes, frozenset[bytes]] = {}  # by node identity: the actors it had when it was asked

    async def update(self, hub: MessageHub, nodes: Iterable[KnownNode]) -> None:
        """Ask every node that has actors which it was not asked about before."""
        changed = [node for node in nodes if self._has_new_actors(node)]
        requests = [request_stats(hub, node.identity) for node in changed]
        reports = await asyncio.gather(*requests)
        for node, report in zip(changed, reports, strict=True):
            self._requested[node.identity] = frozenset(node.actors)
            if report is None:
                continue
            for actor in report.actors:
                self._reports[actor.identity] = actor

    def _has_new_actors(self, node: KnownNode) -> bool:
        requested = self._requested.get(node.identity, frozenset())
        return not requested.issuperset(node.actors)

    def describe(self, actor: bytes, kind: MessageIdentifier) -> dict[str, Any]:
        """Return the identity of an actor, with its class and its handler for `kind` if its node reported them."""
        report = self._reports.get(actor)
        description: dict[str, Any] = {"identity": identity_text(actor)}
        if report is not None:
            description |= class_and_handler(report, kind)
        elif kind in _BUILT_IN:
            description["name"] = "built-in"
        return description

    def fingerprint(self, actor: bytes, kind: MessageIdentifier) -> str | None:
        """Return the fingerprint of the payload that an actor handles as `kind`, if its node reported one."""
        report = self._reports.get(actor)
        if report is None:
            return None
        fingerprints = dict(zip(report.handles, report.fingerprints, strict=False))
        value = fingerprints.get(kind)
        return None if value is None else fingerprint_text(value)


def class_and_handler(report: ActorReport, kind: MessageIdentifier) -> dict[str, Any]:
    """Return the class of an actor, and its handler for a kind of message if its node reports handlers."""
    description = {"name": printable_name(report.name)}
    handlers = dict(zip(report.handles, report.handlers, strict=False))
    if kind in handlers:
        description["handler"] = printable_name(handlers[kind])
    return description


def actor_label(actor: dict[str, Any]) -> str:
    """Return a description as one text: ``Greeter.greet 1c2d3e4f``, or the identity alone."""
    identity = shorten_identity(actor["identity"])
    names = [actor[part] for part in ("name", "handler") if part in actor]
    if not names:
        return identity
    name = ".".join(names)
    return f"{name} {identity}"
