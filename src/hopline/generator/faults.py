"""The faults: one play for each kind of flow that goes wrong, and in just one way."""

from __future__ import annotations

from hopline.capture.records import Event
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
from hopline.generator.script import Arrival, Delay, Parcel, Play
from hopline.generator.topology import Service
from hopline.message import Message

STRANGER = "stranger"
"""A key that no domain has."""


def _fails(play: Play, outcome: str, callback: str = "") -> None:
    play.fate.outcome, play.fate.callback = outcome, callback


# -- on the way --------------------------------------------------------------------------------------------------------


def lost_request(play: Play) -> None:
    """Lose the question."""
    sending = ask_quote(play).leave(1)
    sending.arrival, sending.mark = Arrival.LOST, ("lost", "request")
    _fails(play, "expired", "expired")


def lost_answer(play: Play) -> None:
    """Lose the answer."""
    sending = answer_quote(ask_quote(play).travel(1).deliver(Service.PRICE)).leave(0)
    sending.arrival, sending.mark = Arrival.LOST, ("lost", "answer")
    _fails(play, "expired", "expired")


def lost_metric(play: Play) -> None:
    """Lose a message that nobody waits for."""
    sending = play.start(b"METRIC", play.body("gauge", 200), partition=b"eu-west").leave(1)
    sending.arrival, sending.mark = Arrival.LOST, ("lost", "one_way")
    _fails(play, "failed")


def lost_at_the_end(play: Play) -> None:
    """Lose the last message to a node that says hardly anything more: what its clock says then decides."""
    sending = play.start(b"METRIC", play.body("gauge", 200), partition=b"eu-west").leave(1)
    sending.arrival, sending.mark = Arrival.LOST, ("lost", "last")
    _fails(play, "failed")


def duplicated_answer(play: Play) -> None:
    """Let the answer arrive twice: the hub throws the second one away."""
    answer = quote(play)
    _arrives_again(answer, 1, ("duplicated", "answer"))
    answer.happens(Event.DELIVERED, Delay.MAILBOX, receiver=-1, since=answer.last)


def duplicated_metric(play: Play) -> None:
    """Let a message arrive twice, and be handled twice."""
    message = metric(play)
    _arrives_again(message, 0, ("duplicated", "one_way"))
    message.deliver(Service.RECORDS).handled(delay=Delay.RUN)


def _arrives_again(parcel: Parcel, sender: int, mark: tuple[str, str]) -> None:
    at = parcel.role
    parcel.role = sender
    parcel.arrive(at, delay=Delay.AGAIN, arrival=Arrival.DUPLICATE, mark=mark)


def late(play: Play, *, is_taken: bool = False) -> None:
    """Answer when the lifetime of the question is over. A promise may take it all the same: then it was not late."""
    request = ask_quote(play).travel(1).deliver(Service.PRICE)
    answer = request.result(b"QUOTED", play.body("price", 176), delay=Delay.OVERTIME)
    request.handled(answer)
    answer.leave(0)
    answer.arrive(0, mark=("late", "taken" if is_taken else "answer"))
    answer.come_home(is_awaited=is_taken)
    play.fate.is_overtime = True
    if is_taken:
        play.fate.callback = "answered"
    else:
        _fails(play, "expired", "late")


# -- endings -----------------------------------------------------------------------------------------------------------


def expired(play: Play) -> None:
    """Let the question wait in the mailbox until its time is up."""
    request = ask_quote(play).travel(1)
    step = request.end(Event.EXPIRED, "its lifetime was over while it waited", delay=Delay.LIFETIME)
    step.mark = ("expired", "mailbox")
    _fails(play, "expired", "expired")


def overflow(play: Play) -> None:
    """Find no room in the mailbox, and tell nobody."""
    step = ask_quote(play).travel(1).end(Event.OVERFLOW, "too many messages wait for room")
    step.mark = ("overflow", "mailbox")
    _fails(play, "failed", "unanswered")


def unroutable(play: Play) -> None:
    """Ask for what nobody does; the router says so."""
    request = ask_quote(play)
    request.end(Event.UNROUTABLE, "nobody handles it").mark = ("unroutable", "reported")
    request.exception("nobody handles QUOTE/1", "hopline.message.errors.DeliveryError").come_home()
    _fails(play, "failed", "exception")


def failed(play: Play) -> None:
    """Lose the actor while the question waits for it; its node says so."""
    request = ask_quote(play).travel(1)
    request.end(Event.FAILED, "its actor was removed before it could handle it").mark = ("failed", "reported")
    report = request.exception("its actor was removed", "hopline.message.errors.DeliveryError")
    report.travel(0).come_home()
    _fails(play, "failed", "exception")


def hop_limit(play: Play) -> None:
    """Send the question to and fro between two nodes that each think the other handles it."""
    request = ask_quote(play)
    for hop in range(HOP_LIMIT):
        request.leave((hop + 1) % 2, delay=Delay.TURN)
        request.arrive((hop + 1) % 2)
    step = request.end(Event.HOP_LIMIT, f"sent from node to node {HOP_LIMIT} times")
    step.mark = ("hop_limit", "loop")
    _fails(play, "failed", "unanswered")


# -- handlers ----------------------------------------------------------------------------------------------------------


def exception(play: Play) -> None:
    """Fail in the handler."""
    request = ask_quote(play).travel(1).deliver(Service.PRICE)
    report = request.exception("no such article", "LookupError")
    request.handled(report, "LookupError: no such article")
    report.leave(0)
    report.arrive(0, mark=("exception", "handler"))
    report.come_home()
    _fails(play, "failed", "exception")


def unanswered(play: Play) -> None:
    """Handle the question, and return nothing."""
    request = ask_quote(play)
    request.leave(1)
    request.arrive(1, mark=("unanswered", "handler"))
    request.deliver(Service.PRICE).handled(delay=Delay.RUN)
    _fails(play, "unanswered", "unanswered")


def orphan(play: Play) -> None:
    """Answer somebody whose node has no capture: how it began nobody knows."""
    request = ask_quote(play)
    request.leave(1)
    request.arrive(1, mark=("orphan", "request"))
    request.deliver(Service.PRICE)
    answer_quote(request).leave(0)
    _fails(play, "orphan", "unanswered")


# -- attacks -----------------------------------------------------------------------------------------------------------


def _forged(play: Play, verdict: str, signer: str, label: str) -> None:
    """Add to a flow that is as it should be a message that somebody else made for it."""
    flow = quote(play)
    message = Message(b"ORDER.CHARGE", bodies=(play.body("order", 208),), correlation_id=play.correlation, hops=1)
    forgery = Parcel(play, message, 2, play.letters)
    play.letters += 1
    forgery.sign(signer, label)
    forgery.show()
    forgery.arrive(1, delay=Delay.AGAIN, after=flow.last, verdict=verdict, mark=("forged", verdict), is_offence=True)
    forgery.happens(Event.REJECTED, Delay.TAIL, reason=verdict, is_offence=True)


def bad_signature(play: Play) -> None:
    """Sign with a key that is not the domain's."""
    _forged(play, "bad_signature", STRANGER, ORDERS)


def wrong_domain(play: Play) -> None:
    """Use the key of one domain for a message of another."""
    _forged(play, "wrong_domain", LEDGER, LEDGER)


def unknown_domain(play: Play) -> None:
    """Use a domain that nobody has heard of."""
    _forged(play, "unknown_domain", STRANGER, "outlands")


def _replayed(play: Play, by: int, arrival: Arrival, kind: str) -> None:
    message = note(play)
    at = message.role
    message.role = by
    message.arrive(at, delay=Delay.LATER, verdict="replayed", arrival=arrival, mark=("replayed", kind), is_offence=True)
    message.happens(Event.REJECTED, Delay.TAIL, reason="replayed", is_offence=True)


def replayed_by_itself(play: Play) -> None:
    """Send a good message again, in the name of the node that sent it."""
    _replayed(play, 0, Arrival.DUPLICATE, "own_name")


def replayed_by_attacker(play: Play) -> None:
    """Send a good message again, in a name of one's own."""
    _replayed(play, 2, Arrival.UNSENT, "attacker")


def unsigned(play: Play) -> None:
    """Leave out the signature where the domain wants one."""
    message = play.start(b"LEDGER.NOTE", play.body("entry", 304))
    message.leave(1, signer="")
    message.arrive(1, mark=("unsigned", "node"))
    message.end(Event.REJECTED, "unsigned")
    _fails(play, "failed")
