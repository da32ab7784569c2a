"""The router of a node: asks the routing decision for a message's receivers, hands it over, and counts its outcome.

Theory of operation. A message enters through one of four functions:

    submit          a hub or actor of this node sent it
    receive         it came from another node (`receive_from_wire`: with its frames already reported)
    take_back       a link had accepted it and could not deliver it
    _submit_own     the router made it: a receipt, or the report of a failure

and leaves exactly once, into one of four states: accepted by a local port, accepted by a link, ended with an outcome
(`Failures`), or waiting. What waits is either in the queue of `Backpressure`, because its receiver is full, or in that
of the `RouteSearch`, because nothing handles it yet and a route is being looked for; from there it is routed again or
ends. `MessageCounters` balance: what came in equals what ended plus what waits.

Routing itself is done by three functions, from the fastest to the most general: `_route` (a receiver on this node),
`_route_remote` (a single other node), `_route_past` (everything). They return False if the receiver is full, and then
nothing has happened: the caller decides whether the message waits, or its submitter does.

* No message overtakes another one for the same destination: before a message is routed, `Backpressure.must_wait` checks
  that none waits.
* When the receiver whose turn it is has no room, all others that handle the message are tried before it has to wait
  (`OtherReceivers`).
* A message whose time to live has passed ends as expired at the next step of its way.
* The sender of a message that ends is notified if it waits for an answer. The failure of a receipt or of such a
  notification is never reported.

`submit`, `deliver_in_process`, `delivered`, `handled` and `RemoteSender.send` run for every message and are written for
speed. What is rare (no room, no route, failures, broadcasts) has its rules in the other files of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from hopline.actors import receipt
from hopline.client import Deadlines
from hopline.message import (
    RECEIPT,
    Distribution,
    Message,
    MessageIdentifier,
    PeerGoneError,
    RoutingEntry,
)
from hopline.node.routing.backpressure import Backpressure
from hopline.node.routing.backpressure_queue import QueuedDelivery
from hopline.node.routing.broadcast import Broadcasts
from hopline.node.routing.directory import Directory
from hopline.node.routing.failures import Failures
from hopline.node.routing.links import Connect
from hopline.node.routing.other_receivers import OtherReceivers
from hopline.node.routing.route_search import RouteSearch
from hopline.node.routing.sending import RemoteSender, unsent
from hopline.node.routing.submissions import Submissions
from hopline.node.routing.unrouted import Sought
from hopline.node.settings import NodeSettings
from hopline.observers.counters import MessageCounters
from hopline.observers.observer import Observers
from hopline.routing import (
    NO_DEADLINE,
    Delivery,
    Handling,
    Outcome,
    Port,
    Tables,
    decide,
    delivery_of,
    fast_node,
    fast_receiver,
)
from hopline.transport import Condition, Frames

_replace = msgspec.structs.replace  # what `Message.clone` does, in half the time
_NONE: frozenset[bytes] = frozenset()  # no nodes
_UNDECODABLE = Message(b"")  # stands for frames that could not be decoded


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
        self.is_observed = False  # whether an observer needs to see every message
        self.observes_handlers = False
        self._observers = observers
        observers.on_change(self._follow_observers)
        self._changed = Condition()  # fewer messages wait
        self._submissions = Submissions(observers)
        self._failures = Failures(self.counters, observers, self._submit_own)
        self.backpressure = Backpressure(
            tables.node_identity,
            settings,
            deadlines,
            clock,
            counters=self.counters,
            observers=observers,
            submissions=self._submissions,
            failures=self._failures,
            route=self._route_past,
            on_left=self._changed.notify_all,
        )
        self._route_search = RouteSearch(
            settings,
            deadlines,
            clock,
            self._failures,
            discover=discover,
            explain=explain,
            on_left=self._changed.notify_all,
        )
        self.directory = Directory(
            tables,
            connect,
            on_reachable=self._route_unrouted,
            on_changed=self.backpressure.queue.serve_all,
            room_in_link=self.backpressure.link_has_room,
        )
        address = RoutingEntry(uri, tables.node_identity)
        sender = RemoteSender(self.directory.links, address, clock, self.counters, observers, self._failures)
        self._send = sender.send
        self._others = OtherReceivers(tables, self.directory.ports, self._failures, self._hand_over, sender.send)
        self._broadcasts = Broadcasts(self.directory.ports, self.counters, self._failures, sender.send)
        # What is looked up for every message.
        self._tables = tables
        self._ports = self.directory.ports
        self._hubs = self.directory.hubs
        self._queues = self.backpressure.queue.queues
        # The callback point that was last seen to ask for no receipt: messages of one kind share the tuple.
        self._callback_without_receipt: tuple[MessageIdentifier, ...] = ()

    def _follow_observers(self) -> None:
        self.is_observed = self._observers.is_observed
        self.observes_handlers = self._observers.observes_handlers

    @property
    def waiting(self) -> int:
        """How many messages of the node wait for a route or for room, besides those in mailboxes."""
        return self._route_search.waiting + self.backpressure.queue.owned

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
        self.backpressure.queue.serve_all()  # what waited for this receiver goes elsewhere, or fails

    def close(self, receiver: bytes, unhandled: list[Delivery]) -> None:
        """Remove a receiver because the node stops. What it left unhandled fails."""
        self.directory.close(receiver)
        for delivery in unhandled:
            self.ended(delivery, Outcome.FAILED, "its node stopped before it was handled")

    def _route_unrouted(self, targets: tuple[Sought, ...]) -> None:
        """Route the messages that waited for one of these."""
        if not self._route_search.waiting:
            return
        for target in targets:
            released = self._route_search.release(target)
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
            return self._submissions.observe(delivery, self._accept)
        # The rest is `_accept` without its calls: `_route` and the most frequent case of `_hand_over` in place.
        message = delivery.message
        if self._queues and self.backpressure.must_wait(message):
            return False
        receiver = fast_receiver(message, delivery.identifier, self._tables)
        if receiver is None:
            is_taken = self._route_remote(delivery)
        else:
            port = self._ports[receiver]
            if message.callback_point is self._callback_without_receipt:
                is_taken = port.offer(delivery) or self._others.offer(delivery, _NONE)
            else:
                is_taken = self._hand_over(delivery, port) or self._others.offer(delivery, _NONE)
        if is_taken:
            self.counters.submitted += 1
        return is_taken

    def _accept(self, delivery: Delivery) -> bool:
        if self._queues and self.backpressure.must_wait(delivery.message):
            return False
        is_taken = self._route(delivery)
        if is_taken:
            self.counters.submitted += 1
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
        return self.backpressure.add_submitted(delivery, within)

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
        elif (self._queues and self.backpressure.must_wait(message)) or not self._route(delivery):
            self.backpressure.add_owned(delivery, now, _NONE)

    def refuse(self, message: Message | None, reason: str, frames: Frames) -> None:
        """Count frames from another node that are not acceptable: undecodable (without a message), or forged.

        The sender is not notified: a forged message may name a forged sender.
        """
        self.counters.received += 1
        delivery = self._delivery(message or _UNDECODABLE)
        self._failures.count(delivery, Outcome.REJECTED, reason, frames)

    def take_back(self, message: Message, peer: bytes, waited: float) -> None:
        """Route a message again that the link to a peer had accepted and could not deliver.

        Args:
            message: The message as the link got it.
            peer: The node that it did not reach.
            waited: Seconds that it spent in the link.
        """
        self.counters.returned += 1
        now = self.clock()
        delivery = unsent(message, now, waited)
        if self._observers.returned is not None:
            self._observers.returned(delivery)
        if message.distribution != Distribution.BROADCAST:
            self._route_again(delivery, frozenset((peer,)))
            return
        # Other copies may have arrived, so the sender is not notified of this one.
        is_expired = delivery.deadline <= now
        outcome = Outcome.EXPIRED if is_expired else Outcome.FAILED
        self._failures.end(delivery, outcome, "it never left for its node", notify=False)

    def abandoned(self, message: Message, reason: str) -> None:
        """Count a message that was created on this node and never routed."""
        self.counters.submitted += 1
        delivery = self._delivery(message)
        if self.is_observed:
            delivery = self._submissions.submitting(delivery)
            self._submissions.submitted(delivery)
        self.ended(delivery, Outcome.FAILED, reason)

    def _submit_own(self, message: Message, about: int | None) -> None:
        """Submit a message that the router created: a receipt or a failure report.

        Args:
            message: The message.
            about: Number of the record of the message that it is about.
        """
        self.counters.submitted += 1
        delivery = delivery_of(message, self.clock(), about)
        self._submissions.submitted(delivery)
        self._route_again(delivery)

    def _delivery(self, message: Message) -> Delivery:
        return delivery_of(message, self.clock())

    # -- routing -------------------------------------------------------------------------------------------------------

    def _route(self, delivery: Delivery) -> bool:
        """Hand a delivery to its receiver, or return False, without any effect, if that is full."""
        receiver = fast_receiver(delivery.message, delivery.identifier, self._tables)
        if receiver is None:
            return self._route_remote(delivery)
        return self._hand_over(delivery, self._ports[receiver]) or self._others.offer(delivery, _NONE)

    def _route_remote(self, delivery: Delivery) -> bool:
        """Route a delivery that `fast_receiver` has no answer for: nearly always to the only node that handles it."""
        node = fast_node(delivery.message, delivery.identifier, self._tables)
        if node is None:
            return self._route_past(delivery, _NONE)
        send = self._send  # a local name: calling an attribute of an instance is slower
        try:
            return send(delivery, node) or self._others.offer(delivery, _NONE)
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
                return self._hand_over(delivery, port) or self._others.offer(delivery, unreachable)
            is_broadcast = message.distribution == Distribution.BROADCAST
            if not (local or remote):
                self._route_search.handle(delivery, decision, _NONE if is_broadcast else unreachable)
                return True
            if is_broadcast or local or len(remote) > 1:
                self._broadcasts.deliver(delivery, decision)
                return True
            (node,) = remote
            try:
                return self._send(delivery, node) or self._others.offer(delivery, unreachable)
            except PeerGoneError:
                unreachable |= {node}

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

    # -- waiting for room ----------------------------------------------------------------------------------------------

    def room_made(self, receiver: bytes, handled: Iterable[MessageIdentifier]) -> None:
        """Hand over what waits for a receiver of this node that has room again."""
        queue = self.backpressure.queue
        if not queue.is_empty:
            queue.serve((receiver, *handled))

    def _route_again(self, delivery: Delivery, unreachable: frozenset[bytes] = _NONE) -> None:
        """Route a delivery that the node owns; queue it if its receiver is full."""
        now = self.clock()
        if delivery.deadline <= now:
            self.ended(delivery, Outcome.EXPIRED, "its lifetime was over while it waited")
            return
        if self._queues and self.backpressure.must_wait(delivery.message):
            is_taken = False
        elif unreachable:
            is_taken = self._route_past(delivery, unreachable)
        else:
            is_taken = self._route(delivery)
        if not is_taken:
            self.backpressure.add_owned(delivery, now, unreachable)

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
        self._failures.end(delivery, outcome, reason)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def fail_pending(self) -> int:
        """Fail everything that waits for a route or for room, because the node stops. Return how many messages."""
        self.directory.links.stop_watching()
        unrouted = self._route_search.close()
        queued_deliveries = self.backpressure.queue.clear()
        for delivery in unrouted:
            self.ended(delivery, Outcome.FAILED, "its node stopped while a route was looked for")
        for queued in queued_deliveries:
            self.backpressure.fail(queued, "its node stopped while it waited for room")
        self._changed.notify_all()
        return len(unrouted) + len(queued_deliveries)
