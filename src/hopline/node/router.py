"""The router's shell: asks the pure decision who gets a message, hands it over, and counts what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from hopline.actors import exception_result, flow_log, receipt
from hopline.client import Deadlines
from hopline.message import (
    EXCEPTION,
    RECEIPT,
    DeliveryError,
    Distribution,
    ExceptionReport,
    Message,
    MessageIdentifier,
    PeerGoneError,
    RoutingEntry,
)
from hopline.node.ledger import Ledger
from hopline.node.links import Connect, Link
from hopline.node.parking import Parking
from hopline.node.settings import NodeSettings
from hopline.node.telemetry import Telemetry
from hopline.node.waiting import WaitingRoom, destination
from hopline.routing import (
    NO_DEADLINE,
    TICKS_PER_SECOND,
    Decision,
    Delivery,
    NodeRemoval,
    Outcome,
    Port,
    Route,
    Tables,
    decide,
    remaining_ticks,
)

log = flow_log("hopline.router")

_NOBODY: frozenset[bytes] = frozenset()
_NO_ROOM_FOR_COPY = (Outcome.OVERFLOW, "a receiver of the broadcast has no room")
_OWN_KINDS = frozenset({EXCEPTION.identity, RECEIPT.identity})


class Obstacle(Protocol):
    """A receiver without room."""

    def room(self) -> Awaitable[None]:
        """Wait until there may be room."""
        ...


class Router:
    """Routes the messages of one node. Everything happens on the node's event loop, so nothing is locked."""

    def __init__(
        self,
        tables: Tables,
        settings: NodeSettings,
        ledger: Ledger,
        deadlines: Deadlines,
        clock: Callable[[], float],
        *,
        uri: str,
        connect: Connect | None = None,
        discover: Callable[[Message], None] | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.clock = clock
        self.ledger = ledger
        self.delivered = ledger.delivered
        self.handled = ledger.handled
        self._tables = tables
        self._settings = settings
        self._address = RoutingEntry(uri, tables.node_identity)
        self._connect = connect
        self._discover = discover
        self._telemetry = telemetry
        self._ports: dict[bytes, Port] = {}
        self._links: dict[bytes, Link] = {}
        self._parking = Parking(settings.parked_messages, deadlines, self._no_route_came)
        self._waiting_room = WaitingRoom(
            settings.waiting_for_room, self._wait_its_turn, self.ended, self._tell_of_change
        )
        self._change: asyncio.Future[None] | None = None  # what waits has become less

    @property
    def waiting(self) -> int:
        """How many messages are parked or wait for room, besides those in the mailboxes."""
        return len(self._parking) + len(self._waiting_room)

    # -- what lives where ----------------------------------------------------------------------------------------------

    def add_hub(self, port: Port, *, keep_local: bool = False) -> None:
        """Let a hub take messages."""
        self._ports[port.identity] = port
        self._tables.internal.add_hub(port.identity, keep_local=keep_local)
        self._look_again(port.identity)

    def add_actor(self, port: Port, handled: dict[MessageIdentifier, bool]) -> None:
        """Let an actor take the messages that it handles; the flag keeps one of them local."""
        self._ports[port.identity] = port
        for identifier, keep_local in handled.items():
            self._tables.internal.add_actor(port.identity, identifier, keep_local=keep_local)
        self._look_again(self._tables.node_identity, port.identity, *handled)

    def remove(self, receiver: bytes, left: list[Delivery]) -> None:
        """Forget a receiver. What it left unhandled goes to others who handle it, or fails."""
        self._forget_receiver(receiver)
        for delivery in left:
            message = delivery.message
            if message.distribution == Distribution.BROADCAST or message.receiver_identity:
                self.ended(delivery, Outcome.FAILED, "its actor was removed before it could handle it")
            else:
                self._route_again(delivery)

    def close(self, receiver: bytes, left: list[Delivery]) -> None:
        """Forget a receiver because the node stops. What it left unhandled fails."""
        self._forget_receiver(receiver)
        for delivery in left:
            self.ended(delivery, Outcome.FAILED, "its node stopped before it was handled")

    def _forget_receiver(self, receiver: bytes) -> None:
        self._ports.pop(receiver, None)
        self._tables.internal.remove(receiver)
        self._tables.balance.forget(receiver)

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Give the routes to this node that others may know: of some messages, or all."""
        return list(self._tables.internal.advertised(identifiers or None))

    def learn(self, node: bytes, uri: str, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Note that a receiver lives on another node."""
        external = self._tables.external
        if node in external and external.uri_of(node) != uri:
            self._links.pop(node, None)  # it moved
        external.add(node, uri, receiver, identifier)
        self._look_again(node, receiver, *(() if identifier is None else (identifier,)))

    def forget(self, node: bytes, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Note that a receiver on another node is gone, or handles a message no longer."""
        if self._tables.external.remove_route(node, receiver, identifier) is not None:
            self._disconnect(node)

    def forget_node(self, node: bytes) -> NodeRemoval | None:
        """Note that a node is gone."""
        removal = self._tables.external.remove_node(node)
        self._disconnect(node)
        return removal

    def _disconnect(self, node: bytes) -> None:
        self._links.pop(node, None)
        self._tables.balance.forget(node)

    def _look_again(self, *found: bytes | MessageIdentifier) -> None:
        if self._parking:
            for what in found:
                for delivery in self._parking.release(what):
                    self._route_again(delivery)
            self._tell_of_change()

    # -- taking messages -----------------------------------------------------------------------------------------------

    def try_submit(self, message: Message) -> bool:
        """Take a message from a hub or actor of this node, unless its receiver has no room now."""
        span = None if self._telemetry is None else self._telemetry.producing(message)
        now, ttl_ticks = self.clock(), message.ttl_ticks
        deadline = now + ttl_ticks / TICKS_PER_SECOND if ttl_ticks else NO_DEADLINE
        if self._route(Delivery(message, now, deadline, None if span is None else span.origin)) is not None:
            return False
        if span is not None:
            span.end()
        self.ledger.submitted += 1
        return True

    async def submit(self, message: Message, within: float = NO_DEADLINE) -> None:
        """Take a message from a hub or actor of this node; wait for room, for a bounded time."""
        span = None if self._telemetry is None else self._telemetry.producing(message)
        delivery = self._delivery(message, None if span is None else span.origin)
        ended = await self._wait_for_room(delivery, within)
        self.ledger.submitted += 1
        if span is not None:
            span.end()
        if ended is not None:
            self.ended(delivery, *ended)

    def receive(self, message: Message) -> None:
        """Take a message that came from another node."""
        self.ledger.received += 1
        delivery = self._delivery(message, None)
        if delivery.deadline <= delivery.since:
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over on the way")
        else:
            self._route_again(delivery)

    def take_back(self, message: Message, peer: bytes, waited: float) -> None:
        """Take back a message that a link to a peer could not deliver, and try others."""
        self.ledger.returned += 1
        undone = message.clone(hops=message.hops - 1, routing=message.routing[:-1], socket_identity=b"")
        delivery = self._delivery(undone, None)
        delivery = Delivery(undone, delivery.since - waited, delivery.deadline - waited)
        if undone.distribution == Distribution.BROADCAST:
            self.ended(delivery, Outcome.FAILED, "its node went away with it")
        else:
            self._route_again(delivery, frozenset((peer,)))

    def abandoned(self, message: Message, reason: str) -> None:
        """Count a message that was made here and never routed."""
        self.ledger.submitted += 1
        self.ended(self._delivery(message, None), Outcome.FAILED, reason)

    def _delivery(self, message: Message, origin: object) -> Delivery:
        now = self.clock()
        ttl_ticks = message.ttl_ticks
        return Delivery(message, now, now + ttl_ticks / TICKS_PER_SECOND if ttl_ticks else NO_DEADLINE, origin)

    # -- routing them --------------------------------------------------------------------------------------------------

    def _route(self, delivery: Delivery, unreachable: frozenset[bytes] = _NOBODY) -> Obstacle | None:
        """Hand a delivery to whoever gets it. Gives what stands in the way: then nothing happened yet."""
        decision = decide(delivery.message, self._tables, unreachable=unreachable)
        local = decision.local
        if len(local) == 1 and not decision.remote:
            obstacle = self._hand_over(delivery, self._ports[local[0]])
            return None if obstacle is None else self._has_no_room(delivery, local[0], obstacle)
        if local or len(decision.remote) > 1 or delivery.message.distribution == Distribution.BROADCAST:
            self._spread(delivery, decision)
            return None
        if decision.remote:
            (node,) = decision.remote
            try:
                return self._send_away(delivery, node)
            except PeerGoneError:
                return self._route(delivery, unreachable | {node})
        self._nobody(delivery, decision, unreachable)
        return None

    def _has_no_room(self, delivery: Delivery, full: bytes, obstacle: Obstacle) -> Obstacle | None:
        """Offer a delivery to the others here who handle it, when the one whose turn it is has no room."""
        message = delivery.message
        if message.receiver_identity:
            return obstacle
        if message.distribution == Distribution.BROADCAST:
            self.ended(delivery, *_NO_ROOM_FOR_COPY)
            return None
        others = self._tables.internal.handlers(message.identifier) or ()
        taken = any(one != full and self._hand_over(delivery, self._ports[one]) is None for one in others)
        return None if taken else obstacle

    def _hand_over(self, delivery: Delivery, port: Port) -> Obstacle | None:
        message = delivery.message
        if port.confirms_receipts and RECEIPT in message.callback_point:
            confirmed = Delivery(message.without_callback(RECEIPT), delivery.since, delivery.deadline, delivery.origin)
            if not port.offer(confirmed):
                return port
            self._submit_now(receipt(message))
            return None
        return None if port.offer(delivery) else port

    def _send_away(self, delivery: Delivery, node: bytes) -> Obstacle | None:
        message, now = delivery.message, self.clock()
        if delivery.deadline <= now:
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over before it could be sent")
            return None
        leaving = message.clone(
            hops=message.hops + 1,
            routing=(*message.routing, self._address),
            socket_identity=node,
            ttl_ticks=remaining_ticks(delivery, now),
        )
        try:
            link = self._link(node)
            if not link.offer(leaving):
                return link
        except PeerGoneError:
            raise
        except Exception as error:  # a link that fails otherwise is no better, and must not take the message with it
            log.exception("the link to a node failed", flow=message)
            raise PeerGoneError(node) from error
        self.ledger.sent(Delivery(leaving, delivery.since, delivery.deadline), node)
        return None

    def _link(self, node: bytes) -> Link:
        link = self._links.get(node)
        if link is None:
            if self._connect is None:
                raise PeerGoneError(node)
            link = self._links[node] = self._connect(node, self._tables.external.uri_of(node))
        return link

    def _spread(self, delivery: Delivery, decision: Decision) -> None:
        """Give everyone a copy. It waits for nobody: who has no room now misses it, and that is counted."""
        if not (decision.local or decision.remote):
            self._nobody(delivery, decision, _NOBODY)
            return
        self.ledger.copied += len(decision.local) + len(decision.remote) - 1
        missed = [_NO_ROOM_FOR_COPY for receiver in decision.local if not self._ports[receiver].offer(delivery)]
        for node in decision.remote:
            try:
                if self._send_away(delivery, node) is not None:
                    missed.append(_NO_ROOM_FOR_COPY)
            except PeerGoneError:
                missed.append((Outcome.FAILED, "a node is gone"))
        reached_nobody = len(missed) == len(decision.local) + len(decision.remote)
        for count, (outcome, reason) in enumerate(missed):
            self._end(delivery, outcome, reason, tell=reached_nobody and not count)

    def _nobody(self, delivery: Delivery, decision: Decision, unreachable: frozenset[bytes]) -> None:
        """Look for a route while the message is parked, if there is a way to look; else this is its end."""
        message = delivery.message
        if decision.undeliverable is Outcome.HOP_LIMIT:
            self.ended(delivery, Outcome.HOP_LIMIT, f"sent from node to node {message.hops} times")
            return
        # Reports that nobody handles are not worth a search; one that is on its way home is.
        is_worth_it = message.identity not in _OWN_KINDS or message.receiver_identity
        if self._discover is not None and is_worth_it:
            until = min(delivery.deadline, self.clock() + self._settings.parking_time)
            if self._parking.park(delivery, until):
                try:
                    self._discover(message)
                except Exception:
                    log.exception("looking for a route failed", flow=message)
                return
        self.ended(delivery, *_without_route(message, unreachable))

    def _no_route_came(self, delivery: Delivery) -> None:
        if delivery.deadline <= self.clock():
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over while a route was looked for")
        else:
            self.ended(delivery, *_without_route(delivery.message, _NOBODY))
        self._tell_of_change()

    # -- waiting for room ----------------------------------------------------------------------------------------------

    async def _wait_its_turn(self, delivery: Delivery, unreachable: frozenset[bytes]) -> tuple[Outcome, str] | None:
        until = delivery.since + self._settings.room_time  # it may have waited for those before it
        return await self._wait_for_room(delivery, max(0.0, until - self.clock()), unreachable)

    async def _wait_for_room(
        self, delivery: Delivery, within: float, unreachable: frozenset[bytes] = _NOBODY
    ) -> tuple[Outcome, str] | None:
        """Route a delivery as soon as there is room; gives how it ended when there never was."""
        seconds = min(within, self._settings.room_time, delivery.deadline - self.clock())
        try:
            async with asyncio.timeout(seconds):
                while (obstacle := self._route(delivery, unreachable)) is not None:
                    await obstacle.room()
        except TimeoutError:
            if delivery.deadline <= self.clock():
                return Outcome.EXPIRED, "its lifetime was over before there was room for it"
            return Outcome.OVERFLOW, f"no room for it within {seconds:g} s"
        return None

    def _route_again(self, delivery: Delivery, unreachable: frozenset[bytes] = _NOBODY) -> None:
        """Route a delivery that is this node's already. If it must wait for room, it keeps its place in the order."""
        if delivery.deadline <= self.clock():
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over while it waited")
            return
        where = destination(delivery)
        must_wait = where in self._waiting_room or self._route(delivery, unreachable) is not None
        if must_wait and not self._waiting_room.add(where, delivery, unreachable):
            self.ended(delivery, Outcome.OVERFLOW, "too many messages wait for room")

    def _tell_of_change(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def nothing_waits(self) -> None:
        """Wait until nothing is parked or waits for room."""
        while self.waiting:
            self._change = asyncio.get_running_loop().create_future()
            await self._change

    def _submit_now(self, message: Message) -> None:
        """Submit a message of our own, for which nobody can wait."""
        if not self.try_submit(message):
            self.ledger.submitted += 1
            self.ended(self._delivery(message, None), Outcome.OVERFLOW, "no room for it")

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str) -> None:
        """Note how a delivery ended that reached nobody, and tell its sender if it waits for an answer."""
        self._end(delivery, outcome, reason, tell=True)

    def _end(self, delivery: Delivery, outcome: Outcome, reason: str, *, tell: bool) -> None:
        message = delivery.message
        is_own = message.identity in _OWN_KINDS  # nobody is told that he could not be told
        self.ledger.ended(delivery, outcome, reason, quietly=is_own)
        if tell and not is_own and EXCEPTION in message.callback_point:
            report = ExceptionReport(f"{message.identifier}: {reason}", DeliveryError.REPORTED_AS + outcome)
            self._submit_now(exception_result(message, report))

    # -- stopping ------------------------------------------------------------------------------------------------------

    async def fail_what_waits(self) -> int:
        """Fail whatever is parked or waits for room, because the node stops, and tell how much that was."""
        parked = self._parking.release_all()
        for delivery in parked:
            self.ended(delivery, Outcome.FAILED, "its node stopped while a route was looked for")
        return len(parked) + await self._waiting_room.close("its node stopped while it waited for room")


def _without_route(message: Message, unreachable: frozenset[bytes]) -> tuple[Outcome, str]:
    if unreachable:
        return Outcome.FAILED, "every node that handles it is unreachable"
    if message.receiver_node_identity:
        return Outcome.UNROUTABLE, "its receiver is not known"
    awaited = ", ".join(str(one) for one in message.callback_point if one.identity not in _OWN_KINDS)
    return Outcome.UNROUTABLE, f"nobody handles it; its flow waits for {awaited}" if awaited else "nobody handles it"
