"""Requests that every node of a network answers: for its routes, statistics, peers, capture and messages, and a probe.

They are addressed to a node by its identity, and never announced. The route queries are the reference's, byte for byte.
The others are Hopline's own: a node of the reference does not know them, and drops them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from hopline.actors import Actor, HandlerContext, handler
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
from hopline.message import (
    MAX_VERSION,
    Message,
    MessageIdentifier,
    get_logger,
    payload,
    printable_name,
    to_message,
)
from hopline.node.report import ActorReport, NodeReport, PeerReport
from hopline.observers.recorder import CaptureReport
from hopline.observers.tail import Fetched, NodeTail, TailFilter
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


@payload("HOPLINE.REQPEERS")
class RequestPeers(msgspec.Struct, frozen=True):
    """Asks which other nodes a node knows."""


@payload("HOPLINE.PEERS")
class NodePeers(msgspec.Struct, frozen=True):
    """The answer: the other nodes, as this one sees them."""

    peers: tuple[PeerReport, ...]


@payload("HOPLINE.REQTAIL")
class RequestTail(msgspec.Struct, frozen=True):
    """Asks for what has happened on a node since this reader asked last; without a filter, ends its tail."""

    reader: bytes
    wanted: TailFilter | None = None


@payload("HOPLINE.TAIL")
class Tail(msgspec.Struct, frozen=True):
    """The answer: what has happened."""

    fetched: Fetched = Fetched()


class Introspection(Actor):
    """The built-in actor. It is kept local: other nodes reach it by the identity of its node only."""

    def __init__(
        self,
        tables: Tables,
        report: Callable[[], NodeReport],
        peers: Callable[[], tuple[PeerReport, ...]],
        tail: NodeTail,
        set_capture_level: Callable[[Level], None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._tables = tables
        self._report = report
        self._peers = peers
        self._tail = tail
        self._set_capture_level = set_capture_level
        self._wall_clock = wall_clock

    @handler(keep_local=True)
    def probe(self, probe: Probe, context: HandlerContext) -> Message:
        """Return which actors would get a message, and when the request came."""
        arrived_at = self._wall_clock()
        report = self._report()
        by_identity = {actor.identity: actor for actor in report.actors}
        turns = self._tables.internal.messages.get(probe.kind, ())
        probed = Probed(
            node=report.node,
            uri=report.uri,
            software=report.software,
            arrived_at=arrived_at,
            answered_at=self._wall_clock(),
            actors=tuple(by_identity[actor] for actor in turns if actor in by_identity),
        )
        return _answer(context.message, probed)

    @handler(keep_local=True)
    def stats(self, _: RequestStats, context: HandlerContext) -> Message:
        """Return the report of this node."""
        return _answer(context.message, NodeStats(self._report()))

    @handler(keep_local=True)
    def capture(self, request: RequestCapture) -> NodeCapture:
        """Change the capture level if the request has one, and return the state of the capture."""
        if request.level is not None and self._report().capture is not None:
            self._set_capture_level(request.level)
            log.info("capture level changed to %s by a request over the network", request.level)
        return NodeCapture(self._report().capture)

    @handler(keep_local=True)
    def peers(self, _: RequestPeers, context: HandlerContext) -> Message:
        """Return the other nodes that this one knows."""
        return _answer(context.message, NodePeers(self._peers()))

    @handler(keep_local=True)
    def tail(self, request: RequestTail) -> Tail:
        """Return what has happened on this node since a reader asked last, or end the tail of that reader."""
        reader = request.reader
        if request.wanted is None:
            return Tail(self._tail.end(reader))
        is_new = not self._tail.has(reader)
        fetched = self._tail.fetch(reader, request.wanted)
        if is_new and not fetched.problem:
            shown = "with their bodies" if request.wanted.body_bytes else "without bodies"
            log.info("messages of this node are shown to %s over the network, %s", printable_name(reader), shown)
        return Tail(fetched)

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
        return _in_domain_of(message, service_message(MESSAGE_ROUTES, content))

    @handler(REQUEST_EXTERNAL_ROUTES, keep_local=True)
    def external_routes(self, message: Message) -> Message:
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
        return _in_domain_of(message, service_message(EXTERNAL_ROUTES, ExternalRoutes(routes=routes)))

    @handler(REQUEST_INTERNAL_ROUTES, keep_local=True)
    def internal_routes(self, message: Message) -> Message:
        """Return the receivers of this node."""
        internal = self._tables.internal
        content = InternalRoutes(
            message_hubs=[  # a false flag is left out, as the reference does
                ReceiverRegistration(identity=hub, local_registration=keep_local or None)
                for hub, keep_local in internal.hubs.items()
            ],
            message_routes=_registrations(internal.messages),
        )
        return _in_domain_of(message, service_message(INTERNAL_ROUTES, content))


def _answer(question: Message, content: object) -> Message:
    return _in_domain_of(question, to_message(content))


def _in_domain_of(question: Message, answer: Message) -> Message:
    """Return an answer labelled with the domain of its question, for who asks may have no key of another."""
    return answer.clone(domain=question.domain) if question.domain else answer


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
