"""Requests that every node of a network answers: for its routes, its statistics, its capture, and a probe.

They are addressed to a node by its identity, and never announced. The route queries are the reference's, byte for byte.
The others are Hopline's own: a node of the reference does not know them, and drops them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from hopline.actors import Actor, handler
from hopline.capture.events import Level
from hopline.cluster.messages.service import (
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
from hopline.cluster.messages.service_pb2 import (
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
from hopline.observers.recorder import CaptureReport
from hopline.routing import KnownNode, Tables

log = get_logger("hopline.node")


@payload("HOPLINE.PROBE")
class Probe(msgspec.Struct, frozen=True):
    """Asks which actors would get a message of this kind. No handler of an application is called."""

    kind: MessageIdentifier


@payload("HOPLINE.PROBED")
class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the actors in the order of their turns. Times are seconds since 1970, by that node's clock."""

    node: bytes
    uri: str
    software: str
    arrived_at: float
    answered_at: float
    actors: tuple[ActorReport, ...]


@payload("HOPLINE.REQSTATS")
class RequestStats(msgspec.Struct, frozen=True):
    """Asks for the report of a node."""


@payload("HOPLINE.STATS")
class NodeStats(msgspec.Struct, frozen=True):
    """The answer: the report of the node."""

    report: NodeReport


@payload("HOPLINE.REQCAPTURE")
class RequestCapture(msgspec.Struct, frozen=True):
    """Asks for the state of a node's capture; with a level, changes to that level first."""

    level: Level | None = None


@payload("HOPLINE.CAPTURE")
class NodeCapture(msgspec.Struct, frozen=True):
    """The answer: the state of the capture, or None if the node was given no directory for one."""

    report: CaptureReport | None = None


class Introspection(Actor):
    """The built-in actor. It is kept local: other nodes reach it by the identity of its node only."""

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
        """Return which actors would get a message, and when the request came."""
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
        """Return the report of this node."""
        return NodeStats(self._report())

    @handler(keep_local=True)
    def capture(self, request: RequestCapture) -> NodeCapture:
        """Change the capture level if the request has one, and return the state of the capture."""
        if request.level is not None and self._report().capture is not None:
            self._set_capture_level(request.level)
            log.info("capture level changed to %s by a request over the network", request.level)
        return NodeCapture(self._report().capture)

    @handler(REQUEST_MESSAGE_ROUTES, keep_local=True)
    def message_routes(self, message: Message) -> Message:
        """Return the actors that handle a message, on this node and on others."""
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
    def external_routes(self, message: Message) -> Message:  # noqa: ARG002 - the request has no parameters
        """Return the receivers of other nodes that this node knows."""
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
    def internal_routes(self, message: Message) -> Message:  # noqa: ARG002 - the request has no parameters
        """Return the receivers of this node."""
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
    """Return the actors of a node by the messages that they handle."""
    actors_by_message: dict[MessageIdentifier, tuple[bytes, ...]] = {}
    for actor, handled in node.actors.items():
        for identifier in handled:
            actors_by_message[identifier] = (*actors_by_message.get(identifier, ()), actor)
    return actors_by_message


def _registrations(handlers: dict[MessageIdentifier, tuple[bytes, ...]]) -> list[MessageRegistration]:
    return [
        MessageRegistration(message=contract_of(identifier), actors=actors)
        for identifier, actors in handlers.items()
        if isinstance(identifier.version, int) and identifier.version <= MAX_VERSION  # no format can carry others
    ]
