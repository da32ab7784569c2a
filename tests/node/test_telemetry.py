"""Spans of what is sent and handled, by the messaging conventions."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from hopline import Actor, ActorError, Node, NoRoomError, Payload, handler
from hopline.message import LARGEST_EXTENSION, Message, read_extension, write_extension
from hopline.observers.telemetry import telemetry_for, with_trace_context
from hopline.routing import Delivery


class Ask(Payload):
    number: int


class Middle(Payload):
    number: int


class Told(Payload):
    number: int


class First(Actor):
    @handler
    def go_on(self, ask: Ask) -> Middle:
        return Middle(ask.number)


class Second(Actor):
    @handler
    async def answer(self, middle: Middle) -> Told:
        await asyncio.sleep(0)
        trace.get_current_span().set_attribute("seen.by", "the handler")
        if middle.number < 0:
            raise ValueError("negative")
        return Told(middle.number)


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_flow_is_one_trace_of_sendings_and_handlings(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    async def run() -> None:
        async with Node(First(), Second(), tracer_provider=provider, identity=b"node-1") as node:
            await node.hub.send(Ask(1), callback=Told)

    asyncio.run(run())
    spans = by_name(exporter)
    assert set(spans) == {"send Ask", "process Ask", "send Middle", "process Middle", "send Told"}
    order = ["send Ask", "process Ask", "send Middle", "process Middle", "send Told"]
    for earlier, later in itertools.pairwise(order):
        parent = spans[later].parent
        assert parent is not None
        assert parent.span_id == spans[earlier].context.span_id
    for kind in ("Ask", "Middle"):
        sent, handled = spans[f"send {kind}"], spans[f"process {kind}"]
        assert (sent.kind, handled.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert [link.context.span_id for link in handled.links] == [sent.context.span_id]
    attributes = dict(spans["process Middle"].attributes or {})
    assert attributes["messaging.system"] == "hopline"
    assert attributes["messaging.operation.name"] == "process"
    assert attributes["messaging.destination.name"] == "Middle"
    assert attributes["messaging.client.id"] == "node-1"
    assert attributes["code.function.name"] == "Second.answer"
    assert attributes["seen.by"] == "the handler"
    conversations = {(span.attributes or {})["messaging.message.conversation_id"] for span in spans.values()}
    assert len(conversations) == 1


def test_a_handler_that_fails_fails_its_span(
    provider: TracerProvider, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with Node(First(), Second(), tracer_provider=provider) as node:
            with pytest.raises(ActorError):
                await node.hub.send(Ask(-1), callback=Told)

    with caplog.at_level(logging.CRITICAL, logger="hopline"):
        asyncio.run(run())
    failed = by_name(exporter)["process Middle"]
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "negative"
    assert (failed.attributes or {})["error.type"] == "ValueError"


def test_the_sender_s_own_span_is_the_parent(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    async def run() -> None:
        tracer = provider.get_tracer("test")
        async with Node(First(), Second(), tracer_provider=provider) as node:
            with tracer.start_as_current_span("checkout"):
                await node.hub.send(Ask(1), callback=Told)

    asyncio.run(run())
    spans = by_name(exporter)
    parent = spans["send Ask"].parent
    assert parent is not None
    assert parent.span_id == spans["checkout"].context.span_id
    assert len({span.context.trace_id for span in spans.values()}) == 1


def test_what_was_refused_was_never_sent(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    class Full(Actor):
        mailbox_capacity = 1

        @handler
        def take(self, ask: Ask) -> None: ...

    async def run() -> None:
        async with Node(Full(), tracer_provider=provider) as node:
            node.hub.try_send_one_way(Ask(1))
            with pytest.raises(NoRoomError):
                node.hub.try_send_one_way(Ask(2))
            await asyncio.gather(*(node.hub.send_one_way(Ask(number)) for number in range(3)))

    asyncio.run(run())
    assert [span.name for span in exporter.get_finished_spans()].count("send Ask") == 4


def test_nothing_is_traced_unless_somebody_set_a_provider() -> None:
    assert telemetry_for(b"node", None) is None
    assert telemetry_for(b"node", TracerProvider()) is not None


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def handled_parent(
    provider: TracerProvider, exporter: InMemorySpanExporter, extension: bytes
) -> trace.SpanContext | None:
    """Handle a message that came from another node, and return the parent of the span that this makes."""
    telemetry = telemetry_for(b"node", provider)
    assert telemetry is not None
    message = Message(b"ORDER", extension=extension)
    span = telemetry.handling(Delivery(message, message.identifier, 0.0), b"actor", "take")
    span.detach()
    span.end(None)
    (finished,) = exporter.get_finished_spans()
    return finished.parent


def test_a_message_of_another_node_is_handled_in_the_trace_of_its_sender(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    extension = write_extension({"traceparent": PARENT, "tracestate": "vendor=1", "other": 1})
    parent = handled_parent(provider, exporter, extension)
    assert parent is not None
    assert parent.is_remote
    assert f"{parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{parent.span_id:016x}" == "b7ad6b7169203331"
    assert dict(parent.trace_state) == {"vendor": "1"}


@pytest.mark.parametrize(
    "extension",
    [
        b"",
        b"no map",
        write_extension({"other": 1}),
        write_extension({"traceparent": 7}),
        write_extension({"traceparent": ["00", "1"]}),
        write_extension({"traceparent": "00-0-0-01"}),
        write_extension({"traceparent": "x" * 900}),
        write_extension({"traceparent": PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)}),
        write_extension({"tracestate": "vendor=1"}),
    ],
    ids=str,
)
def test_a_trace_context_that_is_none_begins_a_trace(
    provider: TracerProvider, exporter: InMemorySpanExporter, extension: bytes
) -> None:
    assert handled_parent(provider, exporter, extension) is None


def test_what_leaves_carries_the_span_that_sent_it_and_what_others_said(provider: TracerProvider) -> None:
    telemetry = telemetry_for(b"node", provider)
    assert telemetry is not None
    message = Message(b"ORDER", extension=write_extension({"traceparent": PARENT, "tracestate": "old=1", "other": [1]}))
    received = Delivery(message, message.identifier, 0.0)
    submitted = telemetry.submitting(received)
    entries = read_extension(telemetry.sending(message, submitted).extension)
    assert isinstance(submitted.origin, trace.Span)
    context = submitted.origin.get_span_context()
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    assert entries == {"traceparent": f"00-{trace_id}-{span_id}-{context.trace_flags:02x}", "other": [1]}
    assert telemetry.sending(message, received) is message  # it came from another node, and is only forwarded


def test_a_trace_context_is_never_larger_than_an_extension() -> None:
    large = write_extension({"other": "x" * (LARGEST_EXTENSION - 20)})
    context = {"traceparent": PARENT, "tracestate": "vendor=" + "x" * 400}
    assert read_extension(with_trace_context(b"", context)) == context
    assert read_extension(with_trace_context(large, context)) == context
    too_large = {"traceparent": PARENT, "tracestate": "x" * LARGEST_EXTENSION}
    assert read_extension(with_trace_context(large, too_large)) == {"traceparent": PARENT}
    assert with_trace_context(large, {"traceparent": "x" * LARGEST_EXTENSION}) == b""
