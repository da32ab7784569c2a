"""What every node of a network answers when it is asked by its identity: its routes, its books, a probe.

The route queries are the reference's, byte for byte. Probe and stats are Hopline's own: a node of the reference does
not know them, and drops them. Nothing of this is ever announced.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from hopline.actors import Actor, handler
from hopline.capture.events import Level
from hopline.cluster.service import (
    EXTERNAL_ROUTES,
    INTERNAL_ROUTES,
    MESSAGE_ROUTES,
    REQUEST_EXTERNAL_ROUTES,
    REQUEST_INTERNAL_ROUTES,
    REQUEST_MESSAGE_ROUTES,
    contract_of,
    identifier_of,
    read,
    service_message,
)
from hopline.cluster.service_pb2 import (
    ExternalRoutes,
    InternalRoutes,
    MessageReceivingRoute,
    MessageRegistration,
    MessageRoutes,
    NodeExternalRegistration,
    ReceiverRegistration,
    RequestMessageRoutes,
)
from hopline.message import MAX_VERSION, Message, MessageIdentifier, get_logger, payload
from hopline.node.report import ActorReport, NodeReport
from hopline.node.tap import CaptureReport
from hopline.routing import KnownNode, Tables

log = get_logger("hopline.node")


@payload("HOPLINE.PROBE")
class Probe(msgspec.Struct, frozen=True):
    """A question: who would get this kind of message there. It reaches no handler of any user."""

    kind: MessageIdentifier


@payload("HOPLINE.PROBED")
class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """Who would get it: the actors in the order of their turns. Times are of that node's own clock, since 1970."""

    node: bytes
    uri: str
    software: str
    arrived_at: float
    answered_at: float
    actors: tuple[ActorReport, ...]


@payload("HOPLINE.REQSTATS")
class RequestStats(msgspec.Struct, frozen=True):
    """A question: how is that node."""


@payload("HOPLINE.STATS")
class NodeStats(msgspec.Struct, frozen=True):
    """And the answer."""

    report: NodeReport


@payload("HOPLINE.REQCAPTURE")
class RequestCapture(msgspec.Struct, frozen=True):
    """A question: how is that node's capture. With a level, it is to be at that from now on."""

    level: Level | None = None


@payload("HOPLINE.CAPTURE")
class NodeCapture(msgspec.Struct, frozen=True):
    """And the answer. Where the records go is up to the node alone; if it was given no place, it has no capture."""

    report: CaptureReport | None = None


class Introspection(Actor):
    """The built-in actor. It is kept local: others reach it by the identity of its node only."""

    def __init__(
        self,
        tables: Tables,
        report: Callable[[], NodeReport],
        set_capture_level: Callable[[Level], None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._tables = tables
        self._report = report
        self._set_capture_level = set_capture_level
        self._wall_clock = wall_clock

    @handler(keep_local=True)
    def probe(self, probe: Probe) -> Probed:
        """Tell who would get a message, and when the question came."""
        arrived_at = self._wall_clock()
        report = self._report()
        by_identity = {actor.identity: actor for actor in report.actors}
        turns = self._tables.internal.messages.get(probe.kind, ())
        return Probed(
            node=report.node,
            uri=report.uri,
            software=report.software,
            arrived_at=arrived_at,
            answered_at=self._wall_clock(),
            actors=tuple(by_identity[actor] for actor in turns if actor in by_identity),
        )

    @handler(keep_local=True)
    def stats(self, _: RequestStats) -> NodeStats:
        """Tell how this node is."""
        return NodeStats(self._report())

    @handler(keep_local=True)
    def capture(self, request: RequestCapture) -> NodeCapture:
        """Tell how this node's capture is, at another level if that is asked for."""
        if request.level is not None and self._report().capture is not None:
            self._set_capture_level(request.level)
            log.info("capture is at level %s now, as somebody asked", request.level)
        return NodeCapture(self._report().capture)

    @handler(REQUEST_MESSAGE_ROUTES, keep_local=True)
    def message_routes(self, message: Message) -> Message:
        """Tell who handles a message, here and elsewhere."""
        request = read(message, RequestMessageRoutes)
        identifier = identifier_of(request.message_contract)
        content = MessageRoutes(message_contract=contract_of(identifier))
        if request.route_type != RequestMessageRoutes.INTERNAL:
            content.external_routes.extend(
                MessageReceivingRoute(node_identity=node.identity, actor_identity=actors)
                for node in self._tables.external.known()
                if (actors := _handlers(node).get(identifier))
            )
        if request.route_type != RequestMessageRoutes.EXTERNAL:
            actors = self._tables.internal.messages.get(identifier, ())
            content.internal_routes.CopyFrom(
                MessageReceivingRoute(node_identity=self._tables.node_identity, actor_identity=actors)
            )
        return service_message(MESSAGE_ROUTES, content)

    @handler(REQUEST_EXTERNAL_ROUTES, keep_local=True)
    def external_routes(self, message: Message) -> Message:  # noqa: ARG002 - it asks for everything
        """Tell what this node knows of others."""
        routes = [
            NodeExternalRegistration(
                node_identity=node.identity,
                node_uri=node.uri,
                message_hubs=node.hubs,
                message_routes=_registrations(_handlers(node)),
            )
            for node in self._tables.external.known()
        ]
        return service_message(EXTERNAL_ROUTES, ExternalRoutes(routes=routes))

    @handler(REQUEST_INTERNAL_ROUTES, keep_local=True)
    def internal_routes(self, message: Message) -> Message:  # noqa: ARG002 - it asks for everything
        """Tell what lives here."""
        internal = self._tables.internal
        content = InternalRoutes(
            message_hubs=[  # a false flag is left out, as the reference does
                ReceiverRegistration(identity=hub, local_registration=keep_local or None)
                for hub, keep_local in internal.hubs.items()
            ],
            message_routes=_registrations(internal.messages),
        )
        return service_message(INTERNAL_ROUTES, content)


def _handlers(node: KnownNode) -> dict[MessageIdentifier, tuple[bytes, ...]]:
    """Turn round what lives on a node: by message, the actors that handle it."""
    found: dict[MessageIdentifier, tuple[bytes, ...]] = {}
    for actor, handled in node.actors.items():
        for identifier in handled:
            found[identifier] = (*found.get(identifier, ()), actor)
    return found


def _registrations(handlers: dict[MessageIdentifier, tuple[bytes, ...]]) -> list[MessageRegistration]:
    return [
        MessageRegistration(message=contract_of(identifier), actors=actors)
        for identifier, actors in handlers.items()
        if isinstance(identifier.version, int) and identifier.version <= MAX_VERSION  # others have no place on the wire
    ]
