"""Scenarios of healthy traffic: each function builds the template of one kind of flow of a small trading company."""

from __future__ import annotations

from hopline.generator.flow_template import (
    HUB,
    LEDGER_DOMAIN,
    Delay,
    FaultMark,
    FlowTemplate,
    MessageInFlight,
)
from hopline.generator.topology import Service
from hopline.message import EXCEPTION, RECEIPT, Distribution, MessageIdentifier

ORDERS, LEDGER = "orders", LEDGER_DOMAIN
"""The domains of signed messages."""
ORDER_IDENTITIES = (b"ORDER", b"ORDER.PRICE", b"ORDER.RESERVE", b"ORDER.CHARGE", b"ORDER.SHIP", b"ORDER.SHIPPED")
LEDGER_IDENTITIES = (b"LEDGER.NOTE",)
CHAIN = (Service.ORDER, Service.PRICE, Service.STOCK, Service.CHARGE, Service.SHIP)
"""The services that handle an order, one after the other."""
HOP_LIMIT = 32

_CHARGE_ROLE = 4


def _answered_by(identity: bytes) -> tuple[MessageIdentifier, ...]:
    return MessageIdentifier(identity), EXCEPTION


def _receive_answer(answer: MessageInFlight) -> MessageInFlight:
    answer.flow.expected.callback = "answered"
    return answer.transfer(0).deliver_to_hub()


# -- requests ----------------------------------------------------------------------------------------------------------


def request_quote(flow: FlowTemplate) -> MessageInFlight:
    """Submit a request for a price."""
    return flow.start(b"QUOTE", flow.body("article", 224), _answered_by(b"QUOTED"))


def answer_quote(request: MessageInFlight) -> MessageInFlight:
    """Submit the price service's answer and end its handler."""
    answer = request.result(b"QUOTED", request.flow.body("price", 176))
    request.finish_handler(answer)
    return answer


def quote(flow: FlowTemplate) -> MessageInFlight:
    """Request a price from another node and get it."""
    request = request_quote(flow).transfer(1)
    request.deliver(Service.PRICE)
    return _receive_answer(answer_quote(request))


def order(flow: FlowTemplate, *, failing: bool = False) -> None:
    """Order something: priced, reserved, charged and shipped by one node each. The charge may fail."""
    body = flow.body("order", 240)
    message = flow.start(ORDER_IDENTITIES[0], body, _answered_by(b"ORDER.SHIPPED"))
    for role, service in enumerate(CHAIN, start=1):
        message.transfer(role)
        message.deliver(service)
        if failing and role == _CHARGE_ROLE:
            _refuse_card(message)
            return
        next_message = message.result(ORDER_IDENTITIES[role], flow.body("order", 208))
        message.finish_handler(next_message)
        message = next_message
    _receive_answer(message)


def _refuse_card(message: MessageInFlight) -> None:
    expected = message.flow.expected
    report = message.exception_report("the card was refused", "CardRefusedError")
    message.finish_handler(report, "CardRefusedError: the card was refused")
    expected.callback = "exception"
    expected.outcome = "failed"
    report.send(0)
    report.receive(0, mark=FaultMark("exception", "handler"))
    report.deliver_to_hub()


def stock(flow: FlowTemplate) -> None:
    """Request a stock level. The answering node has a second actor count first, which never leaves the node."""
    request = flow.start(b"STOCK", flow.body("article", 168), _answered_by(b"STOCK.LEVEL"))
    request.transfer(1)
    request.deliver(Service.STOCK)
    count = request.result(b"STOCK.COUNT", flow.body("shelf", 152))
    request.finish_handler(count)
    count.deliver(Service.RECORDS)
    answer = count.result(b"STOCK.LEVEL", flow.body("level", 168))
    count.finish_handler(answer)
    _receive_answer(answer)


def basket(flow: FlowTemplate, nested: tuple[str, ...]) -> None:
    """Request the price of a basket, whose handler begins nested flows."""
    request = flow.start(b"BASKET", flow.body("basket", 168), _answered_by(b"BASKET.TOTAL"))
    request.transfer(1)
    request.deliver(Service.ORDER)
    _answer_after_nested(request, nested, b"BASKET.TOTAL", "total")


def availability(flow: FlowTemplate, nested: tuple[str, ...]) -> None:
    """Request whether an article is available, whose handler begins nested flows."""
    request = flow.start(b"AVAILABLE", flow.body("article", 168), _answered_by(b"AVAILABILITY"))
    request.transfer(1)
    request.deliver(Service.STOCK)
    _answer_after_nested(request, nested, b"AVAILABILITY", "level")


def _answer_after_nested(
    request: MessageInFlight,
    nested: tuple[str, ...],
    identity: bytes,
    body_name: str,
) -> None:
    for scenario in nested:
        request.begin_nested_flow(scenario)
    body = request.flow.body(body_name, 168)
    answer = request.result(identity, body, delay=Delay.NESTED_REQUESTS)
    request.finish_handler(answer)
    _receive_answer(answer)


def local(flow: FlowTemplate) -> None:
    """Request something from an actor of the same node: nothing of it is ever on the wire."""
    request = flow.start(b"PROFILE", flow.body("customer", 80), _answered_by(b"PROFILE.DATA"))
    request.deliver(Service.RECORDS)
    answer = request.result(b"PROFILE.DATA", flow.body("customer", 264))
    request.finish_handler(answer)
    flow.expected.callback = "answered"
    answer.deliver_to_hub()


def forwarded(flow: FlowTemplate) -> None:
    """Send a request to a node that no longer handles it and forwards it."""
    request = flow.start(b"RATE", flow.body("currency", 160), _answered_by(b"RATE.IS"))
    request.transfer(1)
    request.transfer(2)
    request.deliver(Service.CHARGE)
    answer = request.result(b"RATE.IS", flow.body("rate", 160))
    request.finish_handler(answer)
    _receive_answer(answer)


def stream(flow: FlowTemplate) -> None:
    """Request a whole catalogue: a huge flow, whose pages are steps that repeat."""
    request = flow.start(b"CATALOGUE", flow.body("catalogue", 80), _answered_by(b"CATALOGUE.PAGE"))
    request.send(1).mark = FaultMark("huge", "stream")
    request.receive(1)
    request.deliver(Service.PRICE)
    first_page = request.result(b"CATALOGUE.PAGE", flow.body("page", 224))
    page = request.result(b"CATALOGUE.PAGE", flow.body("page", 224), delay=Delay.ITEM)
    repeated = [page.last_step]
    first_page.transfer(0).deliver_to_hub()
    page.send(0)
    repeated.append(page.last_step)
    page.receive(0)
    repeated.append(page.last_step)
    page.deliver(HUB)
    repeated.append(page.last_step)
    request.finish_handler(delay=Delay.AFTER_ITEMS)
    flow.repeated = frozenset(repeated)
    flow.expected.callback = "answered"
    flow.expected.outcome = "truncated"


# -- one way -----------------------------------------------------------------------------------------------------------


def note(flow: FlowTemplate) -> MessageInFlight:
    """Note something in the ledger: one way, signed."""
    message = flow.start(b"LEDGER.NOTE", flow.body("entry", 304))
    message.transfer(1)
    handle_record(message)
    return message


def start_metric(flow: FlowTemplate) -> MessageInFlight:
    """Submit a number for the collector: one way, unsigned, in a partition."""
    return flow.start(b"METRIC", flow.body("gauge", 200), partition=b"eu-west")


def metric(flow: FlowTemplate) -> MessageInFlight:
    """Send a number to the collector."""
    message = start_metric(flow).transfer(1)
    handle_record(message)
    return message


def handle_record(message: MessageInFlight) -> None:
    """Deliver a one-way message to the records service, which handles it."""
    message.deliver(Service.RECORDS)
    message.finish_handler(delay=Delay.RUN)


def news(flow: FlowTemplate) -> None:
    """Broadcast: a copy for each listening node, and one for an actor of the same node."""
    message = flow.start(b"NEWS", flow.body("headline", 344), distribution=Distribution.BROADCAST)
    submitted, submitted_step = message.message, message.last_step
    _handle_news(message)
    copies: list[MessageInFlight] = []
    for role in range(1, len(flow.roles)):
        copy = MessageInFlight(flow, submitted, 0, message.message_index)
        copy.last_step = submitted_step
        copy.send(role)
        copies.append(copy)
    for role, copy in enumerate(copies, start=1):
        copy.receive(role)
        _handle_news(copy)


def _handle_news(message: MessageInFlight) -> None:
    message.deliver(Service.NEWS)
    message.finish_handler(delay=Delay.RUN)


def parcel_with_receipt(flow: FlowTemplate) -> None:
    """Send a message and wait only for the receipt of the receiving node."""
    message = flow.start(b"PARCEL", flow.body("parcel", 224), (RECEIPT, EXCEPTION))
    message.transfer(1)
    receipt = message.confirm_receipt()
    message.deliver(Service.SHIP)
    message.finish_handler(delay=Delay.RUN)
    _receive_answer(receipt)


# -- no flow -----------------------------------------------------------------------------------------------------------


def ping(flow: FlowTemplate) -> None:
    """Send a message that belongs to no flow: the protocol's own, or an actor's without a correlation id."""
    identity = b"SAMPLE" if flow.correlation == b"" else b"KINO.PING"
    message = flow.start(identity, flow.body("sample", 80))
    message.send(1).mark = FaultMark("zero", flow.name)
    message.receive(1)
    handle_record(message)


def beacon(flow: FlowTemplate, *, dropped: bool = False) -> None:
    """Send a ping to the gateway, which has no capture. Its records may be missing in the sender's capture, too."""
    message = flow.start(b"KINO.PING", flow.body("sample", 80), receiver=HUB)
    sending = message.send(1)
    if not dropped:
        sending.mark = FaultMark("zero", flow.name)
    for step in flow.steps:
        step.is_dropped = dropped
