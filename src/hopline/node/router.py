"""The router's shell: asks the pure decision who gets a message, hands it over, and counts what became of it.

Who there is to get one, the directory knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from hopline.actors import exception_result, flow_log, receipt
from hopline.client import Deadlines
from hopline.message import (
    EXCEPTION,
    RECEIPT,
    DeliveryError,
    Distribution,
    ExceptionReport,
    HoplineError,
    Message,
    MessageIdentifier,
    PeerGoneError,
    RoutingEntry,
    printable,
)
from hopline.node.directory import Directory
from hopline.node.ledger import Ledger
from hopline.node.links import Connect
from hopline.node.parking import Parking, Sought
from hopline.node.settings import NodeSettings
from hopline.node.tap import Submitter, Tap
from hopline.node.telemetry import Telemetry
from hopline.node.waiting import Destination, Place, WaitingRoom, destination
from hopline.routing import (
    NO_DEADLINE,
    Decision,
    Delivery,
    Outcome,
    Port,
    Tables,
    decide,
    delivery_of,
    remaining_ticks,
    sole_node,
    sole_receiver,
)
from hopline.transport import Condition, Frames

log = flow_log("hopline.router")

_replace = msgspec.structs.replace  # what `Message.clone` does, for half the price
_NOBODY: frozenset[bytes] = frozenset()
_NO_ROOM_FOR_COPY = (Outcome.OVERFLOW, "a receiver of the broadcast has no room")
_ROOM_AGAIN = 0.75  # of the messages that may wait for room: when so few do, others may come again
_UNREADABLE = Message(b"")  # stands for what could not be read
_OWN_KINDS = frozenset({EXCEPTION.identity, RECEIPT.identity})


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
        explain: Callable[[MessageIdentifier], str | None] | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.clock = clock
        self.ledger = ledger
        self.delivered = ledger.delivered
        self.handled = ledger.handled
        self.resolved = ledger.resolved
        self.submit = self._submit
        self.is_watched = ledger.is_watched or telemetry is not None  # no message may go unseen
        self._tap: Tap | None = None  # while it wants to know everything
        self._link_tap: Tap | None = None  # while nobody else tells it what links take and bring
        self.directory = Directory(tables, connect, self._found, self._look_at_room, self._room_in_link)
        self._tables = tables
        self._ports, self._hubs = self.directory.ports, self.directory.hubs
        self._links = self.directory.links
        self._link_to = self._links.by_node
        self._settings = settings
        self._address = RoutingEntry(uri, tables.node_identity)
        self._discover = discover
        self._explain = explain  # why there is no route, if that is known
        self._telemetry = telemetry
        self._parking = Parking(settings.parked_messages, deadlines, self._no_route_came)
        self._waiting_room = WaitingRoom(deadlines, self._route_from_room, self._left_the_room, self._room_never_came)
        self._queues = self._waiting_room.queues
        self._known_without_receipt: tuple[MessageIdentifier, ...] = ()  # to ask once for many messages of one kind
        self._is_looking = False
        self._is_full = False  # so many messages from elsewhere wait for room that no other may
        self.on_full: Callable[[bool], None] | None = None  # told when that begins, and when there is room again
        self._changed = Condition()  # what waits has become less

    def watch(self, tap: Tap | None, *, everything: bool) -> None:
        """Tell a tap of the endings, or of everything; and of what goes over links that were plugged in."""
        self.ledger.watch(tap, everything=everything)
        self._tap = tap if everything else None
        self._link_tap = None if tap is None or tap.sees_wire else tap
        self.submit = self._submit if self._tap is None else self._submit_watched
        self.is_watched = self.ledger.is_watched or self._telemetry is not None

    @property
    def waiting(self) -> int:
        """How many messages are parked or wait for room, besides those in the mailboxes."""
        return len(self._parking) + self._waiting_room.owned

    # -- who comes and goes --------------------------------------------------------------------------------------------

    def remove(self, receiver: bytes, left: list[Delivery]) -> None:
        """Forget a receiver. What it left unhandled goes to others who handle it, or fails."""
        self.directory.remove(receiver)
        for delivery in left:
            message = delivery.message
            if message.distribution == Distribution.BROADCAST or message.receiver_identity:
                self.ended(delivery, Outcome.FAILED, "its actor was removed before it could handle it")
            else:
                self._route_again(delivery)
        self._waiting_room.serve_all()  # those who waited for it go elsewhere, or are told now

    def close(self, receiver: bytes, left: list[Delivery]) -> None:
        """Forget a receiver because the node stops. What it left unhandled fails."""
        self.directory.close(receiver)
        for delivery in left:
            self.ended(delivery, Outcome.FAILED, "its node stopped before it was handled")

    def _found(self, what: tuple[Sought, ...]) -> None:
        """Route again what was parked while this was looked for."""
        if self._parking:
            for one in what:
                for delivery in self._parking.release(one):
                    self._route_again(delivery)
            self._changed.notify_all()

    # -- taking messages -----------------------------------------------------------------------------------------------

    def _submit_watched(self, delivery: Delivery) -> bool:
        return self._submit(delivery) if self._tap is None else self._tap.submitting(delivery, self._submit)

    def _submit(self, delivery: Delivery) -> bool:
        """Take a message from a hub or actor of this node, or say that there is no room: then nothing happened yet."""
        # Requests and answers all pass here, hence in one go what those need that stay.
        message, span = delivery.message, None
        if self._telemetry is not None:
            span = self._telemetry.producing(message)
            delivery = msgspec.structs.replace(delivery, origin=span.origin)
        if self._queues and self._must_wait(message):
            return False
        receiver = sole_receiver(message, delivery.identifier, self._tables)
        if receiver is None:
            is_taken = self._route_elsewhere(delivery)
        else:
            port = self._ports[receiver]
            if message.callback_point is self._known_without_receipt:
                is_taken = port.offer(delivery) or self._has_no_room(delivery, _NOBODY)
            else:
                is_taken = self._hand_over(delivery, port) or self._has_no_room(delivery, _NOBODY)
        if is_taken:
            self.ledger.submitted += 1
            if span is not None:
                span.end()
        return is_taken

    def bring_home(self, request: Message, identifier: MessageIdentifier, value: object) -> bool:
        """Give an answer straight to the hub of this node that waits for it, where nobody would see its message.

        It counts as a message that was submitted and delivered. No means that it has to be sent as one.
        """
        if self.is_watched or request.callback_receiver_node_identity != self._tables.node_identity:
            return False
        hub = self._hubs.get(request.callback_receiver_identity)
        if hub is None or identifier not in request.callback_point:
            return False
        if not hub.take_value(request.callback_key, identifier, value):
            return False
        ledger = self.ledger
        ledger.submitted += 1
        ledger.delivered_count += 1
        return True

    def wait_for_room(self, delivery: Delivery, within: float = NO_DEADLINE) -> Place:
        """Give a delivery that was not taken a place to wait at, for so many seconds."""
        if self._telemetry is not None:
            span = self._telemetry.producing(delivery.message)
            delivery = msgspec.structs.replace(delivery, origin=span.origin)
            span.end()
        until = min(delivery.deadline, delivery.since + min(within, self._settings.room_time))
        place = self._waiting_room.add(self._destination(delivery.message), delivery, until, _NOBODY, submitted=True)
        if self._tap is not None:
            place.submitter = self._tap.submitter_of(delivery.message)
        return place

    def _destination(self, message: Message) -> Destination:
        return destination(message, self._tables.node_identity)

    def _must_wait(self, message: Message) -> bool:
        """Tell whether others came before: nobody is overtaken by a message for the same destination."""
        return (
            self._destination(message) in self._waiting_room.queues and message.distribution != Distribution.BROADCAST
        )

    def receive(self, message: Message, now: float | None = None) -> None:
        """Take a message that came from another node, now or a moment ago."""
        self.ledger.received += 1
        if self._link_tap is not None:
            self._link_tap.received_message(message)
        if now is None:
            now = self.clock()
        delivery = delivery_of(message, now)
        if delivery.deadline <= now:
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over on the way")
        elif (self._queues and self._must_wait(message)) or not self._route(delivery):
            self._wait(delivery, now, _NOBODY)

    def refuse(self, message: Message | None, reason: str, frames: Frames) -> None:
        """Count what came from elsewhere and is not acceptable: malformed (then there is no message), or forged.

        Nobody is told: who forges a message may have forged its sender too.
        """
        self.ledger.received += 1
        self.ledger.ended(
            self._delivery(message or _UNREADABLE), Outcome.REJECTED, reason, quietly=False, frames=frames
        )

    def take_back(self, message: Message, peer: bytes, waited: float) -> None:
        """Take back a message that a link to a peer could not deliver, and try others."""
        self.ledger.returned += 1
        undone = message.clone(hops=message.hops - 1, routing=message.routing[:-1], socket_identity=b"")
        if self._link_tap is not None:  # which was told that it was sent
            self._link_tap.submitted(undone, Submitter(), "it came back from a node that is gone")
        delivery = self._delivery(undone)
        delivery = Delivery(undone, delivery.identifier, delivery.since - waited, delivery.deadline - waited)
        if undone.distribution == Distribution.BROADCAST:  # others may have got theirs: nobody is told of one copy
            is_over = delivery.deadline <= self.clock()
            outcome = Outcome.EXPIRED if is_over else Outcome.FAILED
            self._end(delivery, outcome, "it never left for its node", tell=False)
        else:
            self._route_again(delivery, frozenset((peer,)))

    def abandoned(self, message: Message, reason: str) -> None:
        """Count a message that was made here and never routed."""
        self.ledger.submitted += 1
        if self._tap is not None:
            self._tap.submitted(message, self._tap.submitter_of(message))
        self.ended(self._delivery(message), Outcome.FAILED, reason)

    def _delivery(self, message: Message) -> Delivery:
        return delivery_of(message, self.clock())

    # -- routing them --------------------------------------------------------------------------------------------------

    def _route(self, delivery: Delivery) -> bool:
        """Hand a delivery to whoever gets it, or say that there is no room: then nothing happened yet."""
        receiver = sole_receiver(delivery.message, delivery.identifier, self._tables)
        if receiver is None:
            return self._route_elsewhere(delivery)
        return self._hand_over(delivery, self._ports[receiver]) or self._has_no_room(delivery, _NOBODY)

    def _route_elsewhere(self, delivery: Delivery) -> bool:
        """Route a delivery that has no sole receiver here: nearly always to the sole node that it can go to."""
        node = sole_node(delivery.message, delivery.identifier, self._tables)
        if node is None:
            return self._route_past(delivery, _NOBODY)
        try:
            return self._send_away(delivery, node) or self._has_no_room(delivery, _NOBODY)
        except PeerGoneError:
            return self._route_past(delivery, frozenset((node,)))

    def _route_past(self, delivery: Delivery, unreachable: frozenset[bytes]) -> bool:
        """Route a delivery to whoever gets it but some nodes."""
        message = delivery.message
        while True:
            decision = decide(message, self._tables, unreachable=unreachable)
            local = decision.local
            if len(local) == 1 and not decision.remote:
                return self._hand_over(delivery, self._ports[local[0]]) or self._has_no_room(delivery, unreachable)
            if local or len(decision.remote) > 1 or message.distribution == Distribution.BROADCAST:
                self._spread(delivery, decision)
                return True
            if not decision.remote:
                self._nobody(delivery, decision, unreachable)
                return True
            (node,) = decision.remote
            try:
                return self._send_away(delivery, node) or self._has_no_room(delivery, unreachable)
            except PeerGoneError:
                unreachable |= {node}

    def _has_no_room(self, delivery: Delivery, unreachable: frozenset[bytes]) -> bool:
        """Offer a delivery to all who handle it, here and elsewhere, when the one whose turn it is has no room."""
        message = delivery.message
        if message.receiver_identity or message.receiver_node_identity not in (b"", self._tables.node_identity):
            return False
        if message.distribution == Distribution.BROADCAST:
            self.ended(delivery, *_NO_ROOM_FOR_COPY)
            return True
        others = self._tables.internal.handlers(message.identifier) or ()
        if any(self._hand_over(delivery, self._ports[one]) for one in others):
            return True
        stays_here = message.receiver_node_identity or (message.hops and others)
        if stays_here or message.hops >= self._tables.hop_limit:
            return False
        for node in list(self._tables.external.handlers(message.identifier) or ()):
            try:
                if node not in unreachable and self._send_away(delivery, node):
                    return True
            except PeerGoneError:
                continue
        return False

    def _hand_over(self, delivery: Delivery, port: Port) -> bool:
        message = delivery.message
        if message.callback_point is self._known_without_receipt:
            return port.offer(delivery)
        if RECEIPT not in message.callback_point:
            self._known_without_receipt = message.callback_point
        elif port.confirms_receipts:
            confirmed = message.without_callback(RECEIPT)
            if not port.offer(msgspec.structs.replace(delivery, message=confirmed)):
                return False
            self._submit_own(receipt(message), None if self._tap is None else self._tap.arrival)
            return True
        return port.offer(delivery)

    def _send_away(self, delivery: Delivery, node: bytes) -> bool:
        message = delivery.message
        ttl_ticks = message.ttl_ticks
        if delivery.deadline != NO_DEADLINE:
            now = self.clock()
            if delivery.deadline <= now:
                self.ended(delivery, Outcome.EXPIRED, "its lifetime was over before it could be sent")
                return True
            ttl_ticks = remaining_ticks(delivery, now)
        if self._telemetry is not None:
            message = self._telemetry.leaving(message, delivery.origin)
        leaving = _replace(
            message,
            hops=message.hops + 1,
            routing=(*message.routing, self._address),
            socket_identity=node,
            ttl_ticks=ttl_ticks,
        )
        sent_at = 0.0 if self._link_tap is None else self.clock()  # before: the link may hand it over at once
        try:
            link = self._link_to.get(node) or self._links.connect(node)
            if not link.offer(leaving):
                self._links.watch(node, link)
                return False
        except PeerGoneError:
            raise
        except HoplineError as error:  # it can be sent nowhere: it is too large, or belongs to no domain
            self.ended(delivery, Outcome.FAILED, str(error))
            return True
        except Exception as error:  # a link that fails otherwise is no better, and must not take the message with it
            log.exception("the link to a node failed", flow=message)
            raise PeerGoneError(node) from error
        if self._link_tap is not None:
            self._link_tap.sent_message(leaving, node, sent_at)
        self.ledger.sent(delivery, leaving, node)
        return True

    def _spread(self, delivery: Delivery, decision: Decision) -> None:
        """Give everyone a copy. It waits for nobody: who has no room now misses it, and that is counted."""
        if not (decision.local or decision.remote):
            self._nobody(delivery, decision, _NOBODY)
            return
        self.ledger.copied += len(decision.local) + len(decision.remote) - 1
        missed = [_NO_ROOM_FOR_COPY for receiver in decision.local if not self._ports[receiver].offer(delivery)]
        for node in decision.remote:
            try:
                if not self._send_away(delivery, node):
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
        # However often a route comes and turns out to be none, the time to look for one is over at some time.
        until = min(delivery.deadline, delivery.since + self._settings.parking_time)
        if self._discover is not None and is_worth_it and until > self.clock() and self._parking.park(delivery, until):
            self._look_for(message)
        else:
            self.ended(delivery, *self._without_route(message, unreachable))

    def _look_for(self, message: Message) -> None:
        if self._discover is None or self._is_looking:  # a route that was found at once, and turned out to be none
            return
        self._is_looking = True
        try:
            self._discover(message)
        except Exception:
            log.exception("looking for a route failed", flow=message)
        finally:
            self._is_looking = False

    def _no_route_came(self, delivery: Delivery) -> None:
        if delivery.deadline <= self.clock():
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over while a route was looked for")
        else:
            self.ended(delivery, *self._without_route(delivery.message, _NOBODY))
        self._changed.notify_all()

    def _without_route(self, message: Message, unreachable: frozenset[bytes]) -> tuple[Outcome, str]:
        """Return how a message ends that nobody can be found for, and why."""
        if unreachable:
            return Outcome.FAILED, "every node that handles it is unreachable"
        if message.receiver_node_identity:
            return Outcome.UNROUTABLE, "its receiver is not known"
        refused = self._explain(message.identifier) if self._explain is not None else None
        if refused is not None:
            return Outcome.UNROUTABLE, refused
        awaited = printable(", ".join(str(one) for one in message.callback_point if one.identity not in _OWN_KINDS))
        waiting = f"; its flow waits for {awaited}" if awaited else ""
        return Outcome.UNROUTABLE, f"nobody handles it{waiting}"

    # -- waiting for room ----------------------------------------------------------------------------------------------

    def room_made(self, receiver: bytes, handled: Iterable[MessageIdentifier]) -> None:
        """Note that a receiver of this node has room, and hand over what waited for it."""
        if not self._waiting_room.is_empty:
            self._waiting_room.serve((receiver, *handled))

    def _look_at_room(self) -> None:
        """Hand over what can go now, perhaps to others than before."""
        self._waiting_room.serve_all()

    def _room_in_link(self, gone: bytes | None) -> None:
        """Note that some link may have room, or that a node is gone."""
        if gone is not None:
            for place in self._waiting_room.places():
                place.unreachable |= {gone}
        self._waiting_room.serve_all()

    def _route_from_room(self, place: Place) -> bool:
        if self._tap is None or not place.is_submitted:
            return self._route_past(place.delivery, place.unreachable)
        return self._tap.submitting(
            place.delivery,
            lambda delivery: self._route_past(delivery, place.unreachable),
            place.submitter or Submitter(),
        )

    def _left_the_room(self, place: Place) -> None:
        if place.is_submitted:
            self.ledger.submitted += 1
        if self._is_full and self._waiting_room.owned <= self._settings.waiting_for_room * _ROOM_AGAIN:
            self._set_full(False)
        self._changed.notify_all()

    def _give_up_room(self, place: Place) -> None:
        if self._tap is not None and place.is_submitted:
            self._tap.submitted(place.delivery.message, place.submitter or Submitter())
        self._left_the_room(place)

    def _room_never_came(self, place: Place) -> None:
        delivery = place.delivery
        self._give_up_room(place)
        if delivery.deadline <= self.clock():
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over before there was room for it")
        else:
            self.ended(
                delivery, Outcome.OVERFLOW, f"no room for it within {round(place.until - delivery.since, 3):g} s"
            )

    def _route_again(self, delivery: Delivery, unreachable: frozenset[bytes] = _NOBODY) -> None:
        """Route a delivery that is this node's already. If it must wait for room, it keeps its place in the order."""
        now = self.clock()
        if delivery.deadline <= now:
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over while it waited")
        else:
            must_wait = self._queues and self._must_wait(delivery.message)
            if must_wait or not (self._route_past(delivery, unreachable) if unreachable else self._route(delivery)):
                self._wait(delivery, now, unreachable)

    def _wait(self, delivery: Delivery, now: float, unreachable: frozenset[bytes]) -> None:
        """Let a delivery that is this node's already wait for room."""
        if self._waiting_room.owned >= self._settings.waiting_for_room:
            self.ended(delivery, Outcome.OVERFLOW, "too many messages wait for room")
            return
        until = min(delivery.deadline, now + self._settings.room_time)
        self._waiting_room.add(self._destination(delivery.message), delivery, until, unreachable, submitted=False)
        if self._waiting_room.owned >= self._settings.waiting_for_room:
            self._set_full(True)

    def _set_full(self, is_full: bool) -> None:
        if is_full is not self._is_full:
            self._is_full = is_full
            if self.on_full is not None:
                self.on_full(is_full)

    def _submit_own(self, message: Message, about: int | None) -> None:
        """Submit a message of the router's own: a receipt, or a report. It is about a message with this record."""
        self.ledger.submitted += 1
        if self._tap is not None:
            self._tap.submitted(message, Submitter(about))
        self._route_again(self._delivery(message))

    async def nothing_waits(self) -> None:
        """Wait until nothing is parked or waits for room."""
        await self._changed.wait_for(lambda: not self.waiting)

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str) -> None:
        """Note how a delivery ended that reached nobody, and tell its sender if it waits for an answer."""
        self._end(delivery, outcome, reason, tell=True)

    def _end(self, delivery: Delivery, outcome: Outcome, reason: str, *, tell: bool) -> None:
        message = delivery.message
        is_own = message.identity in _OWN_KINDS  # nobody is told that he could not be told
        seq = self.ledger.ended(delivery, outcome, reason, quietly=is_own)
        if tell and not is_own and EXCEPTION in message.callback_point:
            report = ExceptionReport(f"{message.identifier}: {reason}", DeliveryError.REPORTED_AS + outcome)
            self._submit_own(exception_result(message, report), seq)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def fail_what_waits(self) -> int:
        """Fail whatever is parked or waits for room, because the node stops, and tell how much that was."""
        self._discover = None  # nothing is parked any more
        self._links.stop_watching()
        parked, waiting = self._parking.release_all(), self._waiting_room.clear()
        for delivery in parked:
            self.ended(delivery, Outcome.FAILED, "its node stopped while a route was looked for")
        for place in waiting:
            self._give_up_room(place)
            self.ended(place.delivery, Outcome.FAILED, "its node stopped while it waited for room")
            place.leave()
        self._changed.notify_all()
        return len(parked) + len(waiting)
