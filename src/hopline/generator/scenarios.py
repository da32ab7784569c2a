"""The traffic as it should be: what a small trading house says all day, a play for each kind of flow."""

from __future__ import annotations

from hopline.generator.script import HUB, Delay, Parcel, Play
from hopline.generator.topology import Service
from hopline.message import EXCEPTION, RECEIPT, Distribution, MessageIdentifier

ORDERS, LEDGER = "orders", "ledger"
ORDER_IDENTITIES = (b"ORDER", b"ORDER.PRICE", b"ORDER.RESERVE", b"ORDER.CHARGE", b"ORDER.SHIP", b"ORDER.SHIPPED")
LEDGER_IDENTITIES = (b"LEDGER.NOTE",)
CHAIN = (Service.ORDER, Service.PRICE, Service.STOCK, Service.CHARGE, Service.SHIP)
HOP_LIMIT = 32
CHARGE_ROLE = 4

_QUOTED = (MessageIdentifier(b"QUOTED"), EXCEPTION)


def ask_quote(play: Play) -> Parcel:
    """Ask for a price."""
    return play.start(b"QUOTE", play.body("article", 224), _QUOTED)


def answer_quote(request: Parcel) -> Parcel:
    """Let the price service answer, and its handler end."""
    answer = request.result(b"QUOTED", request.play.body("price", 176))
    request.handled(answer)
    return answer


def quote(play: Play) -> Parcel:
    """Ask another node for a price, and get it."""
    answer = answer_quote(ask_quote(play).travel(1).deliver(Service.PRICE))
    play.fate.callback = "answered"
    return answer.travel(0).come_home()


def order(play: Play, *, failing: bool = False) -> None:
    """Order something: it is priced, reserved, charged and shipped, each by another node. The charge may fail."""
    awaited = (MessageIdentifier(b"ORDER.SHIPPED"), EXCEPTION)
    message = play.start(ORDER_IDENTITIES[0], play.body("order", 240), awaited)
    for role, service in enumerate(CHAIN, start=1):
        message.travel(role).deliver(service)
        if failing and role == CHARGE_ROLE:
            report = message.exception("the card was refused", "CardRefusedError")
            message.handled(report, "CardRefusedError: the card was refused")
            play.fate.callback, play.fate.outcome = "exception", "failed"
            report.leave(0)
            report.arrive(0, mark=("exception", "handler"))
            report.come_home()
            return
        following = message.result(ORDER_IDENTITIES[role], play.body("order", 208))
        message.handled(following)
        message = following
    play.fate.callback = "answered"
    message.travel(0).come_home()


def stock(play: Play) -> None:
    """Ask for what is in stock; the node that answers counts in a step of its own, which never leaves it."""
    request = play.start(b"STOCK", play.body("article", 168), (MessageIdentifier(b"STOCK.LEVEL"), EXCEPTION))
    request.travel(1).deliver(Service.STOCK)
    count = request.result(b"STOCK.COUNT", play.body("shelf", 152))
    request.handled(count)
    count.deliver(Service.RECORDS)
    answer = count.result(b"STOCK.LEVEL", play.body("level", 168))
    count.handled(answer)
    play.fate.callback = "answered"
    answer.travel(0).come_home()


def basket(play: Play, asked: tuple[str, ...]) -> None:
    """Ask for the price of a basket; who knows it asks others for it, each in a flow of its own."""
    request = play.start(b"BASKET", play.body("basket", 168), (MessageIdentifier(b"BASKET.TOTAL"), EXCEPTION))
    request.travel(1).deliver(Service.ORDER)
    _answer_after(request, asked, b"BASKET.TOTAL", "total")


def availability(play: Play, asked: tuple[str, ...]) -> None:
    """Ask whether something is available; who knows it asks others, too."""
    request = play.start(b"AVAILABLE", play.body("article", 168), (MessageIdentifier(b"AVAILABILITY"), EXCEPTION))
    request.travel(1).deliver(Service.STOCK)
    _answer_after(request, asked, b"AVAILABILITY", "level")


def _answer_after(request: Parcel, asked: tuple[str, ...], identity: bytes, what: str) -> None:
    for scene in asked:
        request.request(scene)
    answer = request.result(identity, request.play.body(what, 168), delay=Delay.ASKED)
    request.handled(answer)
    request.play.fate.callback = "answered"
    answer.travel(0).come_home()


def local(play: Play) -> None:
    """Ask an actor of the same node: nothing of it is ever on the wire."""
    request = play.start(b"PROFILE", play.body("customer", 80), (MessageIdentifier(b"PROFILE.DATA"), EXCEPTION))
    request.deliver(Service.RECORDS)
    answer = request.result(b"PROFILE.DATA", play.body("customer", 264))
    request.handled(answer)
    play.fate.callback = "answered"
    answer.come_home()


def note(play: Play) -> Parcel:
    """Note something in the ledger: one way, signed."""
    message = play.start(b"LEDGER.NOTE", play.body("entry", 304))
    message.travel(1).deliver(Service.RECORDS).handled(delay=Delay.RUN)
    return message


def metric(play: Play) -> Parcel:
    """Send a number to whoever collects them: one way, unsigned, in a partition."""
    message = play.start(b"METRIC", play.body("gauge", 200), partition=b"eu-west")
    message.travel(1).deliver(Service.RECORDS).handled(delay=Delay.RUN)
    return message


def news(play: Play) -> None:
    """Tell everyone: a copy for each node that listens, and one for an actor of the same node."""
    message = play.start(b"NEWS", play.body("headline", 344), distribution=Distribution.BROADCAST)
    submitted, before = message.last, message.message
    message.deliver(Service.NEWS).handled(delay=Delay.RUN)
    copies = []
    for role in range(1, len(play.roles)):
        copy = Parcel(play, before, 0, message.letter)
        copy.last = submitted
        copy.leave(role)
        copies.append(copy)
    for role, copy in enumerate(copies, start=1):
        copy.arrive(role)
        copy.deliver(Service.NEWS).handled(delay=Delay.RUN)


def parcel_with_receipt(play: Play) -> None:
    """Send something and wait only until another node has it."""
    message = play.start(b"PARCEL", play.body("parcel", 224), (RECEIPT, EXCEPTION)).travel(1)
    receipt = message.confirm()
    message.deliver(Service.SHIP).handled(delay=Delay.RUN)
    play.fate.callback = "answered"
    receipt.travel(0).come_home()


def forwarded(play: Play) -> None:
    """Ask a node that handles the question no longer, and sends it on."""
    request = play.start(b"RATE", play.body("currency", 160), (MessageIdentifier(b"RATE.IS"), EXCEPTION))
    request.travel(1).travel(2).deliver(Service.CHARGE)
    answer = request.result(b"RATE.IS", play.body("rate", 160))
    request.handled(answer)
    play.fate.callback = "answered"
    answer.travel(0).come_home()


def ping(play: Play) -> None:
    """Say that one is there: a message of the protocol's own, or of an actor that starts no flow."""
    identity = b"SAMPLE" if play.correlation == b"" else b"KINO.PING"
    message = play.start(identity, play.body("sample", 80))
    message.leave(1).mark = ("zero", play.name)
    message.arrive(1)
    message.deliver(Service.RECORDS).handled(delay=Delay.RUN)


def beacon(play: Play, *, dropped: bool = False) -> None:
    """Tell the gateway, which nobody captures, that one is there."""
    message = play.start(b"KINO.PING", play.body("sample", 80), receiver=HUB)
    message.leave(1).mark = ("", "") if dropped else ("zero", play.name)
    for step in play.steps:
        step.is_dropped = dropped


def stream(play: Play) -> None:
    """Ask for everything there is: more answers than anyone wants to look at."""
    awaited = (MessageIdentifier(b"CATALOGUE.PAGE"), EXCEPTION)
    request = play.start(b"CATALOGUE", play.body("catalogue", 80), awaited)
    request.leave(1).mark = ("huge", "stream")
    request.arrive(1)
    request.deliver(Service.PRICE)
    first = request.result(b"CATALOGUE.PAGE", play.body("page", 224))
    start = len(play.steps)
    page = request.result(b"CATALOGUE.PAGE", play.body("page", 224), delay=Delay.ITEM)
    first.travel(0).come_home()
    repeated = [start]
    for step in (lambda: page.leave(0), lambda: page.arrive(0), lambda: page.deliver(HUB)):
        step()
        repeated.append(page.last)
    request.handled(delay=Delay.ITEMS)
    play.repeated = frozenset(repeated)
    play.fate.callback, play.fate.outcome = "answered", "truncated"
