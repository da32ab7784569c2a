"""Scenarios of faulty traffic: each function builds the template of a flow that goes wrong in exactly one way."""

from __future__ import annotations

from hopline.capture.records import Event
from hopline.generator.flow_template import HUB, Delay, FaultMark, FlowTemplate, MessageInFlight, TransitStatus
from hopline.generator.scenarios import (
    HOP_LIMIT,
    LEDGER,
    ORDERS,
    answer_quote,
    handle_record,
    metric,
    note,
    quote,
    request_quote,
    start_metric,
)
from hopline.generator.topology import Service
from hopline.message import Message

UNKNOWN_SIGNER = "stranger"
"""The name of a key that no domain has."""

_DELIVERY_ERROR = "hopline.message.errors.DeliveryError"


def _expect(flow: FlowTemplate, outcome: str, callback: str = "") -> None:
    flow.expected.outcome = outcome
    flow.expected.callback = callback


# -- on the network ----------------------------------------------------------------------------------------------------


def _lose(message: MessageInFlight, to: int, kind: str) -> None:
    sending = message.send(to)
    sending.transit = TransitStatus.LOST
    sending.mark = FaultMark("lost", kind)


def lost_request(flow: FlowTemplate) -> None:
    """Lose the request."""
    request = request_quote(flow)
    _lose(request, 1, "request")
    _expect(flow, "expired", "expired")


def lost_answer(flow: FlowTemplate) -> None:
    """Lose the answer."""
    request = request_quote(flow).transfer(1)
    request.deliver(Service.PRICE)
    answer = answer_quote(request)
    _lose(answer, 0, "answer")
    _expect(flow, "expired", "expired")


def lost_metric(flow: FlowTemplate) -> None:
    """Lose a one-way message."""
    _lose(start_metric(flow), 1, "one_way")
    _expect(flow, "failed")


def lost_at_the_end(flow: FlowTemplate) -> None:
    """Lose a one-way message just before its receiver's capture ends, so that the clocks decide whether it is lost."""
    _lose(start_metric(flow), 1, "last")
    _expect(flow, "failed")


def duplicated_answer(flow: FlowTemplate) -> None:
    """Receive the answer twice; the hub discards the second."""
    answer = quote(flow)
    _receive_duplicate(answer, 1, FaultMark("duplicated", "answer"))
    answer.add_step(Event.DELIVERED, Delay.MAILBOX, receiver=HUB, duration_from=answer.last_step)


def duplicated_metric(flow: FlowTemplate) -> None:
    """Receive and handle a one-way message twice."""
    message = metric(flow)
    _receive_duplicate(message, 0, FaultMark("duplicated", "one_way"))
    handle_record(message)


def _receive_duplicate(message: MessageInFlight, sender: int, mark: FaultMark) -> None:
    receiver = message.role
    message.role = sender
    message.receive(
        receiver,
        delay=Delay.DUPLICATE,
        transit=TransitStatus.DUPLICATE,
        mark=mark,
    )


def late(flow: FlowTemplate, *, is_taken: bool = False) -> None:
    """Answer after the lifetime of the request. One that the promise takes all the same is not late."""
    request = request_quote(flow).transfer(1)
    request.deliver(Service.PRICE)
    answer = request.result(b"QUOTED", flow.body("price", 176), delay=Delay.OVERTIME)
    request.finish_handler(answer)
    answer.send(0)
    kind = "taken" if is_taken else "answer"
    answer.receive(0, mark=FaultMark("late", kind))
    answer.deliver_to_hub(is_awaited=is_taken)
    flow.expected.is_overtime = True
    if is_taken:
        flow.expected.callback = "answered"
    else:
        _expect(flow, "expired", "late")


# -- endings -----------------------------------------------------------------------------------------------------------


def expired(flow: FlowTemplate) -> None:
    """Keep the request in the mailbox until it expires."""
    request = request_quote(flow).transfer(1)
    ending = request.end(Event.EXPIRED, "its lifetime was over while it waited", delay=Delay.EXPIRY)
    ending.mark = FaultMark("expired", "mailbox")
    _expect(flow, "expired", "expired")


def overflow(flow: FlowTemplate) -> None:
    """Drop the request at a full mailbox, without a report."""
    request = request_quote(flow).transfer(1)
    ending = request.end(Event.OVERFLOW, "too many messages wait for room")
    ending.mark = FaultMark("overflow", "mailbox")
    _expect(flow, "failed", "unanswered")


def unroutable(flow: FlowTemplate) -> None:
    """Request what no node handles; the router reports it."""
    request = request_quote(flow)
    ending = request.end(Event.UNROUTABLE, "nobody handles it")
    ending.mark = FaultMark("unroutable", "reported")
    report = request.exception_report("nobody handles QUOTE/1", _DELIVERY_ERROR)
    report.deliver_to_hub()
    _expect(flow, "failed", "exception")


def failed(flow: FlowTemplate) -> None:
    """Remove the actor while the request waits for it; its node reports it."""
    request = request_quote(flow).transfer(1)
    ending = request.end(Event.FAILED, "its actor was removed before it could handle it")
    ending.mark = FaultMark("failed", "reported")
    report = request.exception_report("its actor was removed", _DELIVERY_ERROR)
    report.transfer(0).deliver_to_hub()
    _expect(flow, "failed", "exception")


def hop_limit(flow: FlowTemplate) -> None:
    """Send the request back and forth between two nodes that each take the other for its handler."""
    request = request_quote(flow)
    for hop in range(1, HOP_LIMIT + 1):
        receiver = hop % 2
        request.send(receiver, delay=Delay.FORWARD)
        request.receive(receiver)
    ending = request.end(Event.HOP_LIMIT, f"sent from node to node {HOP_LIMIT} times")
    ending.mark = FaultMark("hop_limit", "loop")
    _expect(flow, "failed", "unanswered")


# -- handlers ----------------------------------------------------------------------------------------------------------


def exception(flow: FlowTemplate) -> None:
    """Fail in the handler."""
    request = request_quote(flow).transfer(1)
    request.deliver(Service.PRICE)
    report = request.exception_report("no such article", "LookupError")
    request.finish_handler(report, "LookupError: no such article")
    report.send(0)
    report.receive(0, mark=FaultMark("exception", "handler"))
    report.deliver_to_hub()
    _expect(flow, "failed", "exception")


def unanswered(flow: FlowTemplate) -> None:
    """Handle the request and return nothing."""
    request = request_quote(flow)
    request.send(1)
    request.receive(1, mark=FaultMark("unanswered", "handler"))
    request.deliver(Service.PRICE)
    request.finish_handler(delay=Delay.RUN)
    _expect(flow, "unanswered", "unanswered")


def orphan(flow: FlowTemplate) -> None:
    """Answer a requester whose node has no capture, so that no record shows how the flow began."""
    request = request_quote(flow)
    request.send(1)
    request.receive(1, mark=FaultMark("orphan", "request"))
    request.deliver(Service.PRICE)
    answer = answer_quote(request)
    answer.send(0)
    _expect(flow, "orphan", "unanswered")


# -- attacks -----------------------------------------------------------------------------------------------------------


def _forge(flow: FlowTemplate, verdict: str, signer: str, label: str) -> None:
    """Add a message that an attacker made to a flow that is healthy otherwise."""
    answer = quote(flow)
    body = flow.body("order", 208)
    message = Message(
        b"ORDER.CHARGE",
        bodies=(body,),
        correlation_id=flow.correlation,
        hops=1,
    )
    forgery = flow.new_message(message, role=2)
    forgery.sign(signer, label)
    forgery.take_snapshot()
    forgery.receive(
        1,
        delay=Delay.DUPLICATE,
        after=answer.last_step,
        verdict=verdict,
        mark=FaultMark("forged", verdict),
        is_offence=True,
    )
    forgery.add_step(Event.REJECTED, Delay.IMMEDIATE, reason=verdict, is_offence=True)


def bad_signature(flow: FlowTemplate) -> None:
    """Sign with a key that is not the domain's."""
    _forge(flow, "bad_signature", UNKNOWN_SIGNER, ORDERS)


def wrong_domain(flow: FlowTemplate) -> None:
    """Use the key of one domain for a message of another."""
    _forge(flow, "wrong_domain", LEDGER, LEDGER)


def unknown_domain(flow: FlowTemplate) -> None:
    """Use a domain that is not configured."""
    _forge(flow, "unknown_domain", UNKNOWN_SIGNER, "outlands")


def _replay(flow: FlowTemplate, sender: int, transit: TransitStatus, kind: str) -> None:
    message = note(flow)
    receiver = message.role
    message.role = sender
    message.receive(
        receiver,
        delay=Delay.REPLAY,
        verdict="replayed",
        transit=transit,
        mark=FaultMark("replayed", kind),
        is_offence=True,
    )
    message.add_step(Event.REJECTED, Delay.IMMEDIATE, reason="replayed", is_offence=True)


def replayed_in_senders_name(flow: FlowTemplate) -> None:
    """Replay a valid message in the name of the node that sent it."""
    _replay(flow, 0, TransitStatus.DUPLICATE, "own_name")


def replayed_by_attacker(flow: FlowTemplate) -> None:
    """Replay a valid message in the attacker's own name."""
    _replay(flow, 2, TransitStatus.UNSENT, "attacker")


def unsigned(flow: FlowTemplate) -> None:
    """Omit the signature where the domain requires one."""
    message = flow.start(b"LEDGER.NOTE", flow.body("entry", 304))
    message.send(1, signer="")
    message.receive(1, mark=FaultMark("unsigned", "node"))
    message.end(Event.REJECTED, "unsigned")
    _expect(flow, "failed")
