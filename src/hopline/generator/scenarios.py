"""The traffic as it should be: what a small trading house says all day, a flow for each kind of flow."""

from __future__ import annotations

from hopline.generator.flow_template import HUB, Delay, FlowTemplate, MessageInFlight
from hopline.generator.topology import Service
from hopline.message import EXCEPTION, RECEIPT, Distribution, MessageIdentifier

ORDERS, LEDGER = "orders", "ledger"
ORDER_IDENTITIES = (b"ORDER", b"ORDER.PRICE", b"ORDER.RESERVE", b"ORDER.CHARGE", b"ORDER.SHIP", b"ORDER.SHIPPED")
LEDGER_IDENTITIES = (b"LEDGER.NOTE",)
CHAIN = (Service.ORDER, Service.PRICE, Service.STOCK, Service.CHARGE, Service.SHIP)
HOP_LIMIT = 32
CHARGE_ROLE = 4

_QUOTED = (MessageIdentifier(b"QUOTED"), EXCEPTION)


def ask_quote(flow: FlowTemplate) -> MessageInFlight:
    """Ask for a price."""
    return flow.start(b"QUOTE", flow.body("article", 224), _QUOTED)


def answer_quote(request: MessageInFlight) -> MessageInFlight:
    """Let the price service answer, and its handler end."""
    answer = request.result(b"QUOTED", request.template.body("price", 176))
    request.finish_handler(answer)
    return answer


def quote(flow: FlowTemplate) -> MessageInFlight:
    """Ask another node for a price, and get it."""
    answer = answer_quote(ask_quote(flow).transfer(1).deliver(Service.PRICE))
    flow.expected.callback = "answered"
    return answer.transfer(0).deliver_to_hub()


def order(flow: FlowTemplate, *, failing: bool = False) -> None:
    """Order something: it is priced, reserved, charged and shipped, each by another node. The charge may fail."""
    awaited = (MessageIdentifier(b"ORDER.SHIPPED"), EXCEPTION)
    message = flow.start(ORDER_IDENTITIES[0], flow.body("order", 240), awaited)
    for role, service in enumerate(CHAIN, start=1):
        message.transfer(role).deliver(service)
        if failing and role == CHARGE_ROLE:
            report = message.exception("the card was refused", "CardRefusedError")
            message.finish_handler(report, "CardRefusedError: the card was refused")
            flow.expected.callback, flow.expected.outcome = "exception", "failed"
            report.send(0)
            report.receive(0, mark=("exception", "handler"))
            report.deliver_to_hub()
            return
        following = message.result(ORDER_IDENTITIES[role], flow.body("order", 208))
        message.finish_handler(following)
        message = following
    flow.expected.callback = "answered"
    message.transfer(0).deliver_to_hub()


def stock(flow: FlowTemplate) -> None:
    """Ask for what is in stock; the node that answers counts in a step of its own, which never leaves it."""
    request = flow.start(b"STOCK", flow.body("article", 168), (MessageIdentifier(b"STOCK.LEVEL"), EXCEPTION))
    request.transfer(1).deliver(Service.STOCK)
    count = request.result(b"STOCK.COUNT", flow.body("shelf", 152))
    request.finish_handler(count)
    count.deliver(Service.RECORDS)
    answer = count.result(b"STOCK.LEVEL", flow.body("level", 168))
    count.finish_handler(answer)
    flow.expected.callback = "answered"
    answer.transfer(0).deliver_to_hub()


def basket(flow: FlowTemplate, asked: tuple[str, ...]) -> None:
    """Ask for the price of a basket; who knows it asks others for it, each in a flow of its own."""
    request = flow.start(b"BASKET", flow.body("basket", 168), (MessageIdentifier(b"BASKET.TOTAL"), EXCEPTION))
    request.transfer(1).deliver(Service.ORDER)
    _answer_after(request, asked, b"BASKET.TOTAL", "total")


def availability(flow: FlowTemplate, asked: tuple[str, ...]) -> None:
    """Ask whether something is available; who knows it asks others, too."""
    request = flow.start(b"AVAILABLE", flow.body("article", 168), (MessageIdentifier(b"AVAILABILITY"), EXCEPTION))
    request.transfer(1).deliver(Service.STOCK)
    _answer_after(request, asked, b"AVAILABILITY", "level")


def _answer_after(request: MessageInFlight, asked: tuple[str, ...], identity: bytes, what: str) -> None:
    for scenario in asked:
        request.request(scenario)
    answer = request.result(identity, request.template.body(what, 168), delay=Delay.ASKED)
    request.finish_handler(answer)
    request.template.expected.callback = "answered"
    answer.transfer(0).deliver_to_hub()


def local(flow: FlowTemplate) -> None:
    """Ask an actor of the same node: nothing of it is ever on the wire."""
    request = flow.start(b"PROFILE", flow.body("customer", 80), (MessageIdentifier(b"PROFILE.DATA"), EXCEPTION))
    request.deliver(Service.RECORDS)
    answer = request.result(b"PROFILE.DATA", flow.body("customer", 264))
    request.finish_handler(answer)
    flow.expected.callback = "answered"
    answer.deliver_to_hub()


def note(flow: FlowTemplate) -> MessageInFlight:
    """Note something in the ledger: one way, signed."""
    message = flow.start(b"LEDGER.NOTE", flow.body("entry", 304))
    message.transfer(1).deliver(Service.RECORDS).finish_handler(delay=Delay.RUN)
    return message


def metric(flow: FlowTemplate) -> MessageInFlight:
    """Send a number to whoever collects them: one way, unsigned, in a partition."""
    message = flow.start(b"METRIC", flow.body("gauge", 200), partition=b"eu-west")
    message.transfer(1).deliver(Service.RECORDS).finish_handler(delay=Delay.RUN)
    return message


def news(flow: FlowTemplate) -> None:
    """Tell everyone: a copy for each node that listens, and one for an actor of the same node."""
    message = flow.start(b"NEWS", flow.body("headline", 344), distribution=Distribution.BROADCAST)
    submitted, before = message.last, message.message
    message.deliver(Service.NEWS).finish_handler(delay=Delay.RUN)
    copies = []
    for role in range(1, len(flow.roles)):
        copy = MessageInFlight(flow, before, 0, message.message_index)
        copy.last = submitted
        copy.send(role)
        copies.append(copy)
    for role, copy in enumerate(copies, start=1):
        copy.receive(role)
        copy.deliver(Service.NEWS).finish_handler(delay=Delay.RUN)


def parcel_with_receipt(flow: FlowTemplate) -> None:
    """Send something and wait only until another node has it."""
    message = flow.start(b"PARCEL", flow.body("parcel", 224), (RECEIPT, EXCEPTION)).transfer(1)
    receipt = message.add_receipt()
    message.deliver(Service.SHIP).finish_handler(delay=Delay.RUN)
    flow.expected.callback = "answered"
    receipt.transfer(0).deliver_to_hub()


def forwarded(flow: FlowTemplate) -> None:
    """Ask a node that handles the question no longer, and sends it on."""
    request = flow.start(b"RATE", flow.body("currency", 160), (MessageIdentifier(b"RATE.IS"), EXCEPTION))
    request.transfer(1).transfer(2).deliver(Service.CHARGE)
    answer = request.result(b"RATE.IS", flow.body("rate", 160))
    request.finish_handler(answer)
    flow.expected.callback = "answered"
    answer.transfer(0).deliver_to_hub()


def ping(flow: FlowTemplate) -> None:
    """Say that one is there: a message of the protocol's own, or of an actor that starts no flow."""
    identity = b"SAMPLE" if flow.correlation == b"" else b"KINO.PING"
    message = flow.start(identity, flow.body("sample", 80))
    message.send(1).mark = ("zero", flow.name)
    message.receive(1)
    message.deliver(Service.RECORDS).finish_handler(delay=Delay.RUN)


def beacon(flow: FlowTemplate, *, dropped: bool = False) -> None:
    """Tell the gateway, which nobody captures, that one is there."""
    message = flow.start(b"KINO.PING", flow.body("sample", 80), receiver=HUB)
    message.send(1).mark = ("", "") if dropped else ("zero", flow.name)
    for step in flow.steps:
        step.is_dropped = dropped


def stream(flow: FlowTemplate) -> None:
    """Ask for everything there is: more answers than anyone wants to look at."""
    awaited = (MessageIdentifier(b"CATALOGUE.PAGE"), EXCEPTION)
    request = flow.start(b"CATALOGUE", flow.body("catalogue", 80), awaited)
    request.send(1).mark = ("huge", "stream")
    request.receive(1)
    request.deliver(Service.PRICE)
    first = request.result(b"CATALOGUE.PAGE", flow.body("page", 224))
    start = len(flow.steps)
    page = request.result(b"CATALOGUE.PAGE", flow.body("page", 224), delay=Delay.ITEM)
    first.transfer(0).deliver_to_hub()
    repeated = [start]
    for step in (lambda: page.send(0), lambda: page.receive(0), lambda: page.deliver(HUB)):
        step()
        repeated.append(page.last)
    request.finish_handler(delay=Delay.ITEMS)
    flow.repeated = frozenset(repeated)
    flow.expected.callback, flow.expected.outcome = "answered", "truncated"
