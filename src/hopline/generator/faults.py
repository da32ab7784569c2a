"""The faults: one flow for each kind of flow that goes wrong, and in just one way."""

from __future__ import annotations

from hopline.capture.records import Event
from hopline.generator.flow_template import Delay, FlowTemplate, MessageInFlight, TransitStatus
from hopline.generator.scenarios import (
    HOP_LIMIT,
    LEDGER,
    ORDERS,
    answer_quote,
    ask_quote,
    metric,
    note,
    quote,
)
from hopline.generator.topology import Service
from hopline.message import Message

STRANGER = "stranger"
"""A key that no domain has."""


def _fails(flow: FlowTemplate, outcome: str, callback: str = "") -> None:
    flow.expected.outcome, flow.expected.callback = outcome, callback


# -- on the way --------------------------------------------------------------------------------------------------------


def lost_request(flow: FlowTemplate) -> None:
    """Lose the question."""
    sending = ask_quote(flow).send(1)
    sending.arrival, sending.mark = TransitStatus.LOST, ("lost", "request")
    _fails(flow, "expired", "expired")


def lost_answer(flow: FlowTemplate) -> None:
    """Lose the answer."""
    sending = answer_quote(ask_quote(flow).transfer(1).deliver(Service.PRICE)).send(0)
    sending.arrival, sending.mark = TransitStatus.LOST, ("lost", "answer")
    _fails(flow, "expired", "expired")


def lost_metric(flow: FlowTemplate) -> None:
    """Lose a message that nobody waits for."""
    sending = flow.start(b"METRIC", flow.body("gauge", 200), partition=b"eu-west").send(1)
    sending.arrival, sending.mark = TransitStatus.LOST, ("lost", "one_way")
    _fails(flow, "failed")


def lost_at_the_end(flow: FlowTemplate) -> None:
    """Lose the last message to a node that says hardly anything more: what its clock says then decides."""
    sending = flow.start(b"METRIC", flow.body("gauge", 200), partition=b"eu-west").send(1)
    sending.arrival, sending.mark = TransitStatus.LOST, ("lost", "last")
    _fails(flow, "failed")


def duplicated_answer(flow: FlowTemplate) -> None:
    """Let the answer arrive twice: the hub throws the second one away."""
    answer = quote(flow)
    _arrives_again(answer, 1, ("duplicated", "answer"))
    answer.add_step(Event.DELIVERED, Delay.MAILBOX, receiver=-1, since=answer.last)


def duplicated_metric(flow: FlowTemplate) -> None:
    """Let a message arrive twice, and be handled twice."""
    message = metric(flow)
    _arrives_again(message, 0, ("duplicated", "one_way"))
    message.deliver(Service.RECORDS).finish_handler(delay=Delay.RUN)


def _arrives_again(parcel: MessageInFlight, sender: int, mark: tuple[str, str]) -> None:
    at = parcel.role
    parcel.role = sender
    parcel.receive(at, delay=Delay.AGAIN, arrival=TransitStatus.DUPLICATE, mark=mark)


def late(flow: FlowTemplate, *, is_taken: bool = False) -> None:
    """Answer when the lifetime of the question is over. A promise may take it all the same: then it was not late."""
    request = ask_quote(flow).transfer(1).deliver(Service.PRICE)
    answer = request.result(b"QUOTED", flow.body("price", 176), delay=Delay.OVERTIME)
    request.finish_handler(answer)
    answer.send(0)
    answer.receive(0, mark=("late", "taken" if is_taken else "answer"))
    answer.deliver_to_hub(is_awaited=is_taken)
    flow.expected.is_overtime = True
    if is_taken:
        flow.expected.callback = "answered"
    else:
        _fails(flow, "expired", "late")


# -- endings -----------------------------------------------------------------------------------------------------------


def expired(flow: FlowTemplate) -> None:
    """Let the question wait in the mailbox until its time is up."""
    request = ask_quote(flow).transfer(1)
    step = request.end(Event.EXPIRED, "its lifetime was over while it waited", delay=Delay.LIFETIME)
    step.mark = ("expired", "mailbox")
    _fails(flow, "expired", "expired")


def overflow(flow: FlowTemplate) -> None:
    """Find no room in the mailbox, and tell nobody."""
    step = ask_quote(flow).transfer(1).end(Event.OVERFLOW, "too many messages wait for room")
    step.mark = ("overflow", "mailbox")
    _fails(flow, "failed", "unanswered")


def unroutable(flow: FlowTemplate) -> None:
    """Ask for what nobody does; the router says so."""
    request = ask_quote(flow)
    request.end(Event.UNROUTABLE, "nobody handles it").mark = ("unroutable", "reported")
    request.exception("nobody handles QUOTE/1", "hopline.message.errors.DeliveryError").deliver_to_hub()
    _fails(flow, "failed", "exception")


def failed(flow: FlowTemplate) -> None:
    """Lose the actor while the question waits for it; its node says so."""
    request = ask_quote(flow).transfer(1)
    request.end(Event.FAILED, "its actor was removed before it could handle it").mark = ("failed", "reported")
    report = request.exception("its actor was removed", "hopline.message.errors.DeliveryError")
    report.transfer(0).deliver_to_hub()
    _fails(flow, "failed", "exception")


def hop_limit(flow: FlowTemplate) -> None:
    """Send the question to and fro between two nodes that each think the other handles it."""
    request = ask_quote(flow)
    for hop in range(HOP_LIMIT):
        request.send((hop + 1) % 2, delay=Delay.TURN)
        request.receive((hop + 1) % 2)
    step = request.end(Event.HOP_LIMIT, f"sent from node to node {HOP_LIMIT} times")
    step.mark = ("hop_limit", "loop")
    _fails(flow, "failed", "unanswered")


# -- handlers ----------------------------------------------------------------------------------------------------------


def exception(flow: FlowTemplate) -> None:
    """Fail in the handler."""
    request = ask_quote(flow).transfer(1).deliver(Service.PRICE)
    report = request.exception("no such article", "LookupError")
    request.finish_handler(report, "LookupError: no such article")
    report.send(0)
    report.receive(0, mark=("exception", "handler"))
    report.deliver_to_hub()
    _fails(flow, "failed", "exception")


def unanswered(flow: FlowTemplate) -> None:
    """Handle the question, and return nothing."""
    request = ask_quote(flow)
    request.send(1)
    request.receive(1, mark=("unanswered", "handler"))
    request.deliver(Service.PRICE).finish_handler(delay=Delay.RUN)
    _fails(flow, "unanswered", "unanswered")


def orphan(flow: FlowTemplate) -> None:
    """Answer somebody whose node has no capture: how it began nobody knows."""
    request = ask_quote(flow)
    request.send(1)
    request.receive(1, mark=("orphan", "request"))
    request.deliver(Service.PRICE)
    answer_quote(request).send(0)
    _fails(flow, "orphan", "unanswered")


# -- attacks -----------------------------------------------------------------------------------------------------------


def _forged(flow: FlowTemplate, verdict: str, signer: str, label: str) -> None:
    """Add to a flow that is as it should be a message that somebody else made for it."""
    answer = quote(flow)
    message = Message(b"ORDER.CHARGE", bodies=(flow.body("order", 208),), correlation_id=flow.correlation, hops=1)
    forgery = MessageInFlight(flow, message, 2, flow.message_count)
    flow.message_count += 1
    forgery.sign(signer, label)
    forgery.show()
    forgery.receive(1, delay=Delay.AGAIN, after=answer.last, verdict=verdict, mark=("forged", verdict), is_offence=True)
    forgery.add_step(Event.REJECTED, Delay.TAIL, reason=verdict, is_offence=True)


def bad_signature(flow: FlowTemplate) -> None:
    """Sign with a key that is not the domain's."""
    _forged(flow, "bad_signature", STRANGER, ORDERS)


def wrong_domain(flow: FlowTemplate) -> None:
    """Use the key of one domain for a message of another."""
    _forged(flow, "wrong_domain", LEDGER, LEDGER)


def unknown_domain(flow: FlowTemplate) -> None:
    """Use a domain that nobody has heard of."""
    _forged(flow, "unknown_domain", STRANGER, "outlands")


def _replayed(flow: FlowTemplate, by: int, arrival: TransitStatus, kind: str) -> None:
    message = note(flow)
    at = message.role
    message.role = by
    message.receive(
        at, delay=Delay.LATER, verdict="replayed", arrival=arrival, mark=("replayed", kind), is_offence=True
    )
    message.add_step(Event.REJECTED, Delay.TAIL, reason="replayed", is_offence=True)


def replayed_by_itself(flow: FlowTemplate) -> None:
    """Send a good message again, in the name of the node that sent it."""
    _replayed(flow, 0, TransitStatus.DUPLICATE, "own_name")


def replayed_by_attacker(flow: FlowTemplate) -> None:
    """Send a good message again, in a name of one's own."""
    _replayed(flow, 2, TransitStatus.UNSENT, "attacker")


def unsigned(flow: FlowTemplate) -> None:
    """Leave out the signature where the domain wants one."""
    message = flow.start(b"LEDGER.NOTE", flow.body("entry", 304))
    message.send(1, signer="")
    message.receive(1, mark=("unsigned", "node"))
    message.end(Event.REJECTED, "unsigned")
    _fails(flow, "failed")
