"""The router of a node: asks the routing decision for a message's receivers, hands it over, and counts its outcome.

Theory of operation. A message enters through one of four functions:

    submit          a hub or actor of this node sent it
    receive         it came from another node (`receive_from_wire`: with its frames already reported)
    take_back       a link had accepted it and could not deliver it
    _submit_own     the router made it: a receipt, or the report of a failure

and leaves exactly once, into one of four states: accepted by a local port, accepted by a link, ended with an outcome
(`ended`), or waiting. What waits is either in the `BackpressureQueue`, because its receiver is full, or in the
`UnroutedQueue`, because nothing handles it yet and a route is being looked for; from there it is routed again or ends.
`MessageCounters` balance: what came in equals what ended plus what waits.

Routing itself is done by three functions, from the fastest to the most general: `_route` (a receiver on this node),
`_route_remote` (a single other node), `_route_past` (everything). They return False if the receiver is full, and then
nothing has happened: the caller decides whether the message waits, or its submitter does.

* No message overtakes another one for the same destination: before a message is routed, `_must_wait` checks that none
  waits.
* When the receiver whose turn it is has no room, all others that handle the message are tried before it has to wait.
* A message whose time to live has passed ends as expired at the next step of its way.
* The sender of a message that ends is notified if it waits for an answer. The failure of a receipt or of such a
  notification is never reported.

`submit`, `deliver_in_process`, `delivered` and `_send_remote` run for every message and are written for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import Context

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
from hopline.node.routing.backpressure import BackpressureQueue, Destination, QueuedDelivery, destination
from hopline.node.routing.directory import Directory
from hopline.node.routing.links import Connect
from hopline.node.routing.unrouted import Sought, UnroutedQueue
from hopline.node.settings import NodeSettings
from hopline.observers.counters import MessageCounters
from hopline.observers.observer import Observers
from hopline.routing import (
    NO_DEADLINE,
    Decision,
    Delivery,
    Handling,
    Outcome,
    Port,
    Tables,
    decide,
    delivery_of,
    fast_node,
    fast_receiver,
    remaining_ticks,
)
from hopline.transport import Condition, Frames

log = flow_log("hopline.router")

_replace = msgspec.structs.replace  # what `Message.clone` does, in half the time
_NONE: frozenset[bytes] = frozenset()  # no nodes
_NO_ROOM_FOR_COPY = (Outcome.OVERFLOW, "a receiver of the broadcast has no room")
_RESUME_AT = 0.75  # of the capacity of the backpressure queue: with so few waiting, reading goes on
_UNDECODABLE = Message(b"")  # stands for frames that could not be decoded
_REPORTS = frozenset({EXCEPTION.identity, RECEIPT.identity})


class Router:
    """Routes the messages of one node. Everything happens on the node's event loop, so nothing is locked."""

    def __init__(
        self,
        tables: Tables,
        settings: NodeSettings,
        observers: Observers,
        deadlines: Deadlines,
        clock: Callable[[], float],
        *,
        uri: str,
        connect: Connect | None = None,
        discover: Callable[[Message], None] | None = None,
        explain: Callable[[MessageIdentifier], str | None] | None = None,
    ) -> None:
        self.clock = clock
        self.counters = MessageCounters()
        self.directory = Directory(
            tables,
            connect,
            on_reachable=self._route_unrouted,
            on_changed=self._serve_waiting,
            room_in_link=self._link_has_room,
        )
        self.on_full: Callable[[bool], None] | None = None  # called when no more may wait for room, and when they may
        self.is_observed = False  # whether an observer needs to see every message
        self.observes_handlers = False
        self._observers = observers
        observers.on_change(self._follow_observers)
        self._tables = tables
        self._ports = self.directory.ports
        self._hubs = self.directory.hubs
        self._links = self.directory.links
        self._link_to = self._links.by_node
        self._settings = settings
        self._address = RoutingEntry(uri, tables.node_identity)
        self._discover = discover
        self._explain = explain  # returns why there is no route, if that is known
        self._unrouted = UnroutedQueue(settings.unrouted_capacity, deadlines, self._no_route_found)
        self._backpressure = BackpressureQueue(
            deadlines,
            self._route_queued,
            self._left_queue,
            self._backpressure_expired,
        )
        self._queues = self._backpressure.queues
        # The callback point that was last seen to ask for no receipt: messages of one kind share the tuple.
        self._callback_without_receipt: tuple[MessageIdentifier, ...] = ()
        self._is_discovering = False
        self._is_full = False  # whether the backpressure queue is
        self._changed = Condition()  # fewer messages wait

    def _follow_observers(self) -> None:
        self.is_observed = self._observers.is_observed
        self.observes_handlers = self._observers.observes_handlers

    @property
    def waiting(self) -> int:
        """How many messages of the node wait for a route or for room, besides those in mailboxes."""
        return len(self._unrouted) + self._backpressure.owned

    # -- receivers come and go -----------------------------------------------------------------------------------------

    def remove(self, receiver: bytes, unhandled: list[Delivery]) -> None:
        """Remove a receiver. What it left unhandled goes to others that handle it, or fails."""
        self.directory.remove(receiver)
        for delivery in unhandled:
            message = delivery.message
            is_broadcast = message.distribution == Distribution.BROADCAST
            if is_broadcast or message.receiver_identity:  # no other receiver may get it
                self.ended(delivery, Outcome.FAILED, "its actor was removed before it could handle it")
            else:
                self._route_again(delivery)
        self._backpressure.serve_all()  # what waited for this receiver goes elsewhere, or fails

    def close(self, receiver: bytes, unhandled: list[Delivery]) -> None:
        """Remove a receiver because the node stops. What it left unhandled fails."""
        self.directory.close(receiver)
        for delivery in unhandled:
            self.ended(delivery, Outcome.FAILED, "its node stopped before it was handled")

    def _route_unrouted(self, targets: tuple[Sought, ...]) -> None:
        """Route the messages that waited for one of these."""
        if not self._unrouted:
            return
        for target in targets:
            released = self._unrouted.release(target)
            for delivery in released:
                self._route_again(delivery)
        self._changed.notify_all()

    # -- accepting messages --------------------------------------------------------------------------------------------

    def submit(self, delivery: Delivery) -> bool:
        """Route a message from a hub or actor of this node.

        Returns:
            False if its receiver is full. Then nothing has happened: submit it again, or `wait_for_room`.
        """
        if self.is_observed:
            return self._submit_observed(delivery, self._accept)
        # The rest is `_accept` without its calls: `_route` and the most frequent case of `_hand_over` in place.
        message = delivery.message
        if self._queues and self._must_wait(message):
            return False
        receiver = fast_receiver(message, delivery.identifier, self._tables)
        if receiver is None:
            is_taken = self._route_remote(delivery)
        else:
            port = self._ports[receiver]
            if message.callback_point is self._callback_without_receipt:
                is_taken = port.offer(delivery) or self._try_other_receivers(delivery, _NONE)
            else:
                is_taken = self._hand_over(delivery, port) or self._try_other_receivers(delivery, _NONE)
        if is_taken:
            self.counters.submitted += 1
        return is_taken

    def _accept(self, delivery: Delivery) -> bool:
        if self._queues and self._must_wait(delivery.message):
            return False
        is_taken = self._route(delivery)
        if is_taken:
            self.counters.submitted += 1
        return is_taken

    def _submit_observed(self, delivery: Delivery, accept: Callable[[Delivery], bool]) -> bool:
        """Accept a submission, and report it before everything that follows from it."""
        delivery = self._submitting(delivery)
        is_taken = False
        try:
            is_taken = accept(delivery)
        finally:
            if is_taken:
                self._submitted(delivery)
            else:
                self._refused(delivery)
        return is_taken

    def deliver_in_process(self, request: Message, identifier: MessageIdentifier, value: object) -> bool:
        """Pass an answer straight to the hub of this node that waits for it, if no observer would miss its message.

        It counts as a message that was submitted and delivered.

        Returns:
            False if it has to be sent as a message.
        """
        if self.is_observed or request.callback_receiver_node_identity != self._tables.node_identity:
            return False
        hub = self._hubs.get(request.callback_receiver_identity)
        if hub is None or identifier not in request.callback_point:
            return False
        if not hub.take_value(request.callback_key, identifier, value):
            return False
        counters = self.counters
        counters.submitted += 1
        counters.delivered += 1
        return True

    def wait_for_room(self, delivery: Delivery, within: float = NO_DEADLINE) -> QueuedDelivery:
        """Queue a delivery that `submit` refused.

        Args:
            delivery: The delivery.
            within: Seconds after which to give up; the settings and its deadline limit them further.
        """
        if self.is_observed:  # now, in the context of the submitter, which observers may need
            delivery = self._submitting(delivery)
            self._refused(delivery)
        timeout = min(within, self._settings.backpressure_timeout)
        until = min(delivery.deadline, delivery.since + timeout)
        where = self._destination(delivery.message)
        return self._backpressure.add(where, delivery, until, _NONE, submitted=True)

    def _destination(self, message: Message) -> Destination:
        return destination(message, self._tables.node_identity)

    def _must_wait(self, message: Message) -> bool:
        """Return whether others wait for the same destination, which a message must not overtake."""
        if message.distribution == Distribution.BROADCAST:
            return False
        return self._destination(message) in self._queues

    def receive(self, message: Message) -> None:
        """Route a message from another node, for networks that are plugged in."""
        now = self.clock()
        observe = self._observers.received
        record = None if observe is None else observe(None, message, now)
        self.receive_from_wire(message, now, record)

    def receive_from_wire(self, message: Message, now: float, record: int | None) -> None:
        """Route a message from another node whose arrival was reported to observers, with the number of its record."""
        self.counters.received += 1
        delivery = delivery_of(message, now, record)
        if delivery.deadline <= now:
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over on the way")
        elif (self._queues and self._must_wait(message)) or not self._route(delivery):
            self._enqueue(delivery, now, _NONE)

    def refuse(self, message: Message | None, reason: str, frames: Frames) -> None:
        """Count frames from another node that are not acceptable: undecodable (without a message), or forged.

        The sender is not notified: a forged message may name a forged sender.
        """
        self.counters.received += 1
        delivery = self._delivery(message or _UNDECODABLE)
        self._count_end(delivery, Outcome.REJECTED, reason, frames)

    def take_back(self, message: Message, peer: bytes, waited: float) -> None:
        """Route a message again that the link to a peer had accepted and could not deliver.

        Args:
            message: The message as the link got it.
            peer: The node that it did not reach.
            waited: Seconds that it spent in the link.
        """
        self.counters.returned += 1
        unsent = message.clone(
            hops=message.hops - 1,
            routing=message.routing[:-1],
            socket_identity=b"",
        )
        delivery_from_now = self._delivery(unsent)
        delivery = Delivery(
            unsent,
            delivery_from_now.identifier,
            since=delivery_from_now.since - waited,
            deadline=delivery_from_now.deadline - waited,
        )
        if self._observers.returned is not None:
            self._observers.returned(delivery)
        if unsent.distribution != Distribution.BROADCAST:
            self._route_again(delivery, frozenset((peer,)))
            return
        # Other copies may have arrived, so the sender is not notified of this one.
        is_expired = delivery.deadline <= self.clock()
        outcome = Outcome.EXPIRED if is_expired else Outcome.FAILED
        self._end(delivery, outcome, "it never left for its node", notify=False)

    def abandoned(self, message: Message, reason: str) -> None:
        """Count a message that was created on this node and never routed."""
        self.counters.submitted += 1
        delivery = self._delivery(message)
        if self.is_observed:
            delivery = self._submitting(delivery)
            self._submitted(delivery)
        self.ended(delivery, Outcome.FAILED, reason)

    def _submit_own(self, message: Message, about: int | None) -> None:
        """Submit a message that the router created: a receipt or a failure report.

        Args:
            message: The message.
            about: Number of the record of the message that it is about.
        """
        self.counters.submitted += 1
        delivery = delivery_of(message, self.clock(), about)
        self._submitted(delivery)
        self._route_again(delivery)

    def _delivery(self, message: Message) -> Delivery:
        return delivery_of(message, self.clock())

    # -- routing -------------------------------------------------------------------------------------------------------

    def _route(self, delivery: Delivery) -> bool:
        """Hand a delivery to its receiver, or return False, without any effect, if that is full."""
        receiver = fast_receiver(delivery.message, delivery.identifier, self._tables)
        if receiver is None:
            return self._route_remote(delivery)
        return self._hand_over(delivery, self._ports[receiver]) or self._try_other_receivers(delivery, _NONE)

    def _route_remote(self, delivery: Delivery) -> bool:
        """Route a delivery that `fast_receiver` has no answer for: nearly always to the only node that handles it."""
        node = fast_node(delivery.message, delivery.identifier, self._tables)
        if node is None:
            return self._route_past(delivery, _NONE)
        try:
            return self._send_remote(delivery, node) or self._try_other_receivers(delivery, _NONE)
        except PeerGoneError:
            return self._route_past(delivery, frozenset((node,)))

    def _route_past(self, delivery: Delivery, unreachable: frozenset[bytes]) -> bool:
        """Route a delivery by the whole rule, leaving out nodes that are unreachable."""
        message = delivery.message
        while True:
            decision = decide(message, self._tables, unreachable=unreachable)
            local = decision.local
            remote = decision.remote
            if len(local) == 1 and not remote:
                (receiver,) = local
                port = self._ports[receiver]
                return self._hand_over(delivery, port) or self._try_other_receivers(delivery, unreachable)
            has_several = local or len(remote) > 1
            if has_several or message.distribution == Distribution.BROADCAST:
                self._broadcast(delivery, decision)
                return True
            if not remote:
                self._handle_unroutable(delivery, decision, unreachable)
                return True
            (node,) = remote
            try:
                return self._send_remote(delivery, node) or self._try_other_receivers(delivery, unreachable)
            except PeerGoneError:
                unreachable |= {node}

    def _try_other_receivers(self, delivery: Delivery, unreachable: frozenset[bytes]) -> bool:
        """Offer a delivery whose receiver is full to all others that handle it, here and on other nodes.

        Returns:
            False if they are full too, or if no other may get it.
        """
        message = delivery.message
        if message.receiver_identity:
            return False
        node = message.receiver_node_identity
        if node and node != self._tables.node_identity:
            return False
        if message.distribution == Distribution.BROADCAST:
            self.ended(delivery, *_NO_ROOM_FOR_COPY)
            return True
        actors = self._tables.internal.handlers(message.identifier) or ()
        for actor in actors:
            port = self._ports[actor]
            if self._hand_over(delivery, port):
                return True
        is_for_this_node = node or (message.hops and actors)
        if is_for_this_node or message.hops >= self._tables.hop_limit:
            return False
        return self._try_other_nodes(delivery, unreachable)

    def _try_other_nodes(self, delivery: Delivery, unreachable: frozenset[bytes]) -> bool:
        """Offer a delivery to each reachable node that handles it, until one accepts it."""
        ring = self._tables.external.handlers(delivery.message.identifier)
        nodes = list(ring or ())  # a copy: sending may change the table
        for node in nodes:
            if node in unreachable:
                continue
            try:
                if self._send_remote(delivery, node):
                    return True
            except PeerGoneError:
                continue
        return False

    def _hand_over(self, delivery: Delivery, port: Port) -> bool:
        """Offer a delivery to a local receiver, and send the receipt if its sender asked for one."""
        message = delivery.message
        if message.callback_point is self._callback_without_receipt:
            return port.offer(delivery)
        if RECEIPT not in message.callback_point:
            self._callback_without_receipt = message.callback_point
            return port.offer(delivery)
        if not port.confirms_receipts:
            return port.offer(delivery)
        confirmed = message.without_callback(RECEIPT)
        if not port.offer(_replace(delivery, message=confirmed)):
            return False
        self._submit_own(receipt(message), delivery.record)
        return True

    def _send_remote(self, delivery: Delivery, node: bytes) -> bool:
        """Offer a delivery to the link to a node.

        Returns:
            False if the link is full.

        Raises:
            PeerGoneError: The node cannot be reached.
        """
        message = delivery.message
        ttl_ticks = message.ttl_ticks
        if delivery.deadline != NO_DEADLINE:
            now = self.clock()
            if delivery.deadline <= now:
                self.ended(delivery, Outcome.EXPIRED, "its lifetime was over before it could be sent")
                return True
            ttl_ticks = remaining_ticks(delivery, now)
        observers = self._observers
        if observers.sending is not None:
            message = observers.sending(message, delivery)
        outgoing = _replace(
            message,
            hops=message.hops + 1,
            routing=(*message.routing, self._address),
            socket_identity=node,
            ttl_ticks=ttl_ticks,
        )
        offered_at = 0.0 if observers.sent is None else self.clock()  # before: the link may deliver it at once
        try:
            link = self._link_to.get(node) or self._links.connect(node)
            if not link.offer(outgoing):
                self._links.watch(node, link)
                return False
        except PeerGoneError:
            raise
        except HoplineError as error:  # no link can send it: it is too large, or belongs to no domain
            self.ended(delivery, Outcome.FAILED, str(error))
            return True
        except Exception as error:  # treat a link that is broken in any other way as a peer that is gone
            log.exception("the link to a node failed", flow=message)
            raise PeerGoneError(node) from error
        self.counters.sent += 1
        if observers.sent is not None:
            observers.sent(delivery, outgoing, node, offered_at)
        return True

    def _broadcast(self, delivery: Delivery, decision: Decision) -> None:
        """Deliver a copy to each receiver. Copies never wait: one that finds a full queue is dropped and counted."""
        if not (decision.local or decision.remote):
            self._handle_unroutable(delivery, decision, _NONE)
            return
        copies = len(decision.local) + len(decision.remote)
        self.counters.copied += copies - 1
        failures: list[tuple[Outcome, str]] = []
        for receiver in decision.local:
            port = self._ports[receiver]
            if not port.offer(delivery):
                failures.append(_NO_ROOM_FOR_COPY)
        for node in decision.remote:
            try:
                if not self._send_remote(delivery, node):
                    failures.append(_NO_ROOM_FOR_COPY)
            except PeerGoneError:
                failures.append((Outcome.FAILED, "a node is gone"))
        notify = len(failures) == copies  # once, and only if no copy was accepted
        for outcome, reason in failures:
            self._end(delivery, outcome, reason, notify=notify)
            notify = False

    # -- looking for routes --------------------------------------------------------------------------------------------

    def _handle_unroutable(self, delivery: Delivery, decision: Decision, unreachable: frozenset[bytes]) -> None:
        """Queue a message while a route is looked for, if that is possible and worth it; else end it."""
        message = delivery.message
        if decision.undeliverable is Outcome.HOP_LIMIT:
            self.ended(delivery, Outcome.HOP_LIMIT, f"sent from node to node {message.hops} times")
            return
        # A report without a particular receiver that nothing handles is no loss.
        is_report = message.identity in _REPORTS
        is_worth_it = not is_report or message.receiver_identity
        # Counted from the arrival: routes may come and go many times, and the search must end all the same.
        search_end = delivery.since + self._settings.discovery_timeout
        until = min(delivery.deadline, search_end)
        can_wait = self._discover is not None and is_worth_it and until > self.clock()
        if can_wait and self._unrouted.add(delivery, until):
            self._look_for_route(message)
            return
        outcome, reason = self._no_route_outcome(message, unreachable)
        self.ended(delivery, outcome, reason)

    def _look_for_route(self, message: Message) -> None:
        if self._discover is None or self._is_discovering:  # the search itself may find a route that is no good
            return
        self._is_discovering = True
        try:
            self._discover(message)
        except Exception:
            log.exception("looking for a route failed", flow=message)
        finally:
            self._is_discovering = False

    def _no_route_found(self, delivery: Delivery) -> None:
        if delivery.deadline <= self.clock():
            outcome, reason = Outcome.EXPIRED, "its lifetime was over while a route was looked for"
        else:
            outcome, reason = self._no_route_outcome(delivery.message, _NONE)
        self.ended(delivery, outcome, reason)
        self._changed.notify_all()

    def _no_route_outcome(self, message: Message, unreachable: frozenset[bytes]) -> tuple[Outcome, str]:
        """Return the outcome of a message that has no route, and the reason."""
        if unreachable:
            return Outcome.FAILED, "every node that handles it is unreachable"
        if message.receiver_node_identity:
            return Outcome.UNROUTABLE, "its receiver is not known"
        explanation = None if self._explain is None else self._explain(message.identifier)
        if explanation is not None:
            return Outcome.UNROUTABLE, explanation
        callbacks = message.callback_point
        awaited = [str(callback) for callback in callbacks if callback.identity not in _REPORTS]
        if not awaited:
            return Outcome.UNROUTABLE, "nobody handles it"
        names = printable(", ".join(awaited))
        return Outcome.UNROUTABLE, f"nobody handles it; its flow waits for {names}"

    # -- waiting for room ----------------------------------------------------------------------------------------------

    def room_made(self, receiver: bytes, handled: Iterable[MessageIdentifier]) -> None:
        """Hand over what waits for a receiver of this node that has room again."""
        if not self._backpressure.is_empty:
            self._backpressure.serve((receiver, *handled))

    def _serve_waiting(self) -> None:
        """Hand over what can go now, perhaps to other receivers than before."""
        self._backpressure.serve_all()

    def _link_has_room(self, gone: bytes | None) -> None:
        """Hand over what waits because some link has room, or its node is gone."""
        if gone is not None:
            for queued in self._backpressure.all():
                queued.unreachable |= {gone}
        self._backpressure.serve_all()

    def _route_again(self, delivery: Delivery, unreachable: frozenset[bytes] = _NONE) -> None:
        """Route a delivery that the node owns; queue it if its receiver is full."""
        now = self.clock()
        if delivery.deadline <= now:
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over while it waited")
            return
        if self._queues and self._must_wait(delivery.message):
            is_taken = False
        elif unreachable:
            is_taken = self._route_past(delivery, unreachable)
        else:
            is_taken = self._route(delivery)
        if not is_taken:
            self._enqueue(delivery, now, unreachable)

    def _enqueue(self, delivery: Delivery, now: float, unreachable: frozenset[bytes]) -> None:
        """Let a delivery that the node owns wait for room."""
        capacity = self._settings.backpressure_capacity
        if self._backpressure.owned >= capacity:
            self.ended(delivery, Outcome.OVERFLOW, "too many messages wait for room")
            return
        until = min(delivery.deadline, now + self._settings.backpressure_timeout)
        where = self._destination(delivery.message)
        self._backpressure.add(where, delivery, until, unreachable, submitted=False)
        if self._backpressure.owned >= capacity:
            self._set_full(True)

    def _route_queued(self, queued: QueuedDelivery) -> bool:
        def route(delivery: Delivery) -> bool:
            return self._route_past(delivery, queued.unreachable)

        if self.is_observed and queued.is_submitted:
            # In an empty context: the current one belongs to whatever made room, not to the submitter.
            return Context().run(self._submit_observed, queued.delivery, route)
        return route(queued.delivery)

    def _left_queue(self, queued: QueuedDelivery) -> None:
        if queued.is_submitted:
            self.counters.submitted += 1
        if self._is_full:
            resume_at = self._settings.backpressure_capacity * _RESUME_AT
            if self._backpressure.owned <= resume_at:
                self._set_full(False)
        self._changed.notify_all()

    def _backpressure_expired(self, queued: QueuedDelivery) -> None:
        delivery = queued.delivery
        self._give_up(queued)
        if delivery.deadline <= self.clock():
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over before there was room for it")
        else:
            waited = round(queued.until - delivery.since, 3)
            self.ended(delivery, Outcome.OVERFLOW, f"no room for it within {waited:g} s")

    def _give_up(self, queued: QueuedDelivery) -> None:
        """Take a delivery out of its submitter's hands, because its wait for room ends in failure."""
        if queued.is_submitted:
            self._submitted(queued.delivery)
        self._left_queue(queued)

    def _set_full(self, is_full: bool) -> None:
        if is_full is self._is_full:
            return
        self._is_full = is_full
        if self.on_full is not None:
            self.on_full(is_full)

    async def nothing_waits(self) -> None:
        """Wait until nothing waits for a route or for room."""
        await self._changed.wait_for(lambda: not self.waiting)

    # -- reporting -----------------------------------------------------------------------------------------------------

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:
        """Count a delivery that a receiver starts on. Return it as observers want to see it from now on."""
        self.counters.delivered += 1
        if self.is_observed:
            observe = self._observers.delivered
            if observe is not None:
                return observe(delivery, receiver)
        return delivery

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        """Report that a promise or stream of a hub accepted a delivery."""
        if self._observers.resolved is not None:
            self._observers.resolved(delivery, receiver)

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> Handling | None:
        """Report that a handler starts, in the handler's own context."""
        observe = self._observers.handling
        return None if observe is None else observe(delivery, receiver, handler)

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """Report that the handler of a delivery failed."""
        if self._observers.failed is not None:
            self._observers.failed(delivery, error)

    def handled(self, error: BaseException | None) -> None:
        """Count a handler that finished."""
        self.counters.handled += 1
        if error is not None:
            self.counters.handler_errors += 1

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str) -> None:
        """Count a delivery that reached no receiver, and notify its sender if it waits for an answer."""
        self._end(delivery, outcome, reason, notify=True)

    def _end(self, delivery: Delivery, outcome: Outcome, reason: str, *, notify: bool) -> None:
        message = delivery.message
        record = self._count_end(delivery, outcome, reason, None)
        is_report = message.identity in _REPORTS  # never report the failure of a report
        if notify and not is_report and EXCEPTION in message.callback_point:
            text = f"{message.identifier}: {reason}"
            type_name = DeliveryError.REPORTED_AS + outcome
            report = exception_result(message, ExceptionReport(text, type_name))
            self._submit_own(report, record)

    def _count_end(
        self,
        delivery: Delivery,
        outcome: Outcome,
        reason: str,
        frames: Frames | None,
    ) -> int | None:
        """Count the end of a delivery. Return the number of the record of it, if there is one."""
        self.counters.failures[outcome] += 1
        observe = self._observers.ended
        return None if observe is None else observe(delivery, outcome, reason, frames)

    def _submitting(self, delivery: Delivery) -> Delivery:
        observe = self._observers.submitting
        return delivery if observe is None else observe(delivery)

    def _submitted(self, delivery: Delivery) -> None:
        if self._observers.submitted is not None:
            self._observers.submitted(delivery)

    def _refused(self, delivery: Delivery) -> None:
        if self._observers.refused is not None:
            self._observers.refused(delivery)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def fail_pending(self) -> int:
        """Fail everything that waits for a route or for room, because the node stops. Return how many messages."""
        self._discover = None  # from now on nothing waits for a route
        self._links.stop_watching()
        unrouted = self._unrouted.release_all()
        queued_deliveries = self._backpressure.clear()
        for delivery in unrouted:
            self.ended(delivery, Outcome.FAILED, "its node stopped while a route was looked for")
        for queued in queued_deliveries:
            self._give_up(queued)
            self.ended(queued.delivery, Outcome.FAILED, "its node stopped while it waited for room")
            queued.finish()
        self._changed.notify_all()
        return len(unrouted) + len(queued_deliveries)
