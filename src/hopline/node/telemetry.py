"""OpenTelemetry: a span where a message is sent, a span where it is handled, and a link between the two.

Only the API is used, and only when it is installed and somebody set a tracer provider. A flow is one trace: the span of
a handling is the child of the span that sent the message, and links to it as the messaging conventions ask.

Inside a node the span context of the sender is handed over beside the message, as the delivery's origin. Between nodes
it travels in the message's extension, as W3C Trace Context: it is put there when a message that was made here leaves,
and read where the message is handled. A node that sends on what came from elsewhere leaves it alone, with or without
telemetry of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hopline.actors.log import correlation_text
from hopline.message import Distribution, ExceptionReport, LocalError, Message, read_extension, write_extension
from hopline.routing import Delivery

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, TracerProvider

SYSTEM = "hopline"
TRACE_CONTEXT = ("traceparent", "tracestate")
"""The names in a message's extension, which are those of the HTTP headers of W3C Trace Context."""


class ProducerSpan(Protocol):
    """The span of a message that is being sent."""

    @property
    def origin(self) -> object:
        """What the handling of the message will link to."""
        ...

    def end(self) -> None:
        """Say that the message was taken. A span that is not ended was never there."""
        ...


class Telemetry(Protocol):
    """Who wants to know what is sent and handled."""

    def producing(self, message: Message) -> ProducerSpan:
        """Say that a message is being sent."""
        ...

    def leaving(self, message: Message, origin: object) -> Message:
        """Return a message that leaves for another node, with what its handling there will link to."""
        ...


class _Producer:
    __slots__ = ("_span", "origin")

    def __init__(self, span: Span) -> None:
        self._span = span
        self.origin = span.get_span_context()

    def end(self) -> None:
        self._span.end()


class _Handling:
    __slots__ = ("_api", "_span", "_token")

    def __init__(self, api: Any, span: Span) -> None:
        self._api = api
        self._span = span
        self._token = api.context.attach(api.trace.set_span_in_context(span))

    def detach(self) -> None:
        self._api.context.detach(self._token)

    def end(self, error: BaseException | None) -> None:
        if error is not None:
            self._span.set_attribute("error.type", type(error).__qualname__)
            self._span.set_status(self._api.trace.StatusCode.ERROR, ExceptionReport.of(error).text)
        self._span.end()


class OpenTelemetry:
    """Spans by the messaging conventions of OpenTelemetry."""

    def __init__(self, provider: TracerProvider, node: bytes) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.context, self.trace = context, trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("hopline")
        self._node = node.decode("utf-8", "backslashreplace")

    def producing(self, message: Message) -> ProducerSpan:
        """Begin the span of a message that is being sent, under whatever span is current."""
        attributes = self._attributes(message, "send")
        name = f"send {attributes['messaging.destination.name']}"
        return _Producer(self._tracer.start_span(name, kind=self.trace.SpanKind.PRODUCER, attributes=attributes))

    def leaving(self, message: Message, origin: object) -> Message:
        """Return a message with the trace context of the span that sent it, for whoever handles it elsewhere."""
        if not isinstance(origin, self.trace.SpanContext):
            return message
        trace_context: dict[str, str] = {}
        self._propagator.inject(trace_context, self._context_of(origin))
        return message.clone(extension=with_trace_context(message.extension, trace_context))

    def begin(self, delivery: Delivery, handler: str) -> _Handling:
        """Begin the span of a handling, under the span that sent the message, and make it current."""
        trace = self.trace
        attributes = self._attributes(delivery.message, "process") | {"code.function.name": handler}
        parent, links = self.context.Context(), []
        origin = delivery.origin
        if origin is None and delivery.message.extension:
            origin = self._received_origin(delivery.message)
        if isinstance(origin, trace.SpanContext):
            parent = self._context_of(origin)
            links = [trace.Link(origin)]
        name = f"process {attributes['messaging.destination.name']}"
        span = self._tracer.start_span(name, parent, kind=trace.SpanKind.CONSUMER, attributes=attributes, links=links)
        return _Handling(self, span)

    def _context_of(self, origin: SpanContext) -> Context:
        return self.trace.set_span_in_context(self.trace.NonRecordingSpan(origin), self.context.Context())

    def _received_origin(self, message: Message) -> SpanContext | None:
        """Return the span that sent a message of another node, if it said so in a way that can be read."""
        entries = read_extension(message.extension)
        trace_context = {name: text for name in TRACE_CONTEXT if isinstance(text := entries.get(name), str)}
        received = self._propagator.extract(trace_context, self.context.Context())
        origin = self.trace.get_current_span(received).get_span_context()
        return origin if origin.is_valid else None

    def _attributes(self, message: Message, operation: str) -> dict[str, Any]:
        return {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": message.identity.decode("utf-8", "backslashreplace"),
            "messaging.message.conversation_id": correlation_text(message),
            "messaging.message.body.size": sum(map(len, message.bodies)),
            "messaging.client.id": self._node,
            "hopline.version": str(message.version),
            "hopline.hops": message.hops,
            "hopline.broadcast": message.distribution == Distribution.BROADCAST,
        }


def with_trace_context(extension: bytes, trace_context: Mapping[str, str]) -> bytes:
    """Return an extension with another trace context, and with all that it says besides, as far as there is room.

    What makes it too large is left out: first what others put there, then the state of the trace, as its standard says.
    """
    others = {name: value for name, value in read_extension(extension).items() if name not in TRACE_CONTEXT}
    parent = {name: text for name, text in trace_context.items() if name == TRACE_CONTEXT[0]}
    for entries in ({**others, **trace_context}, trace_context, parent):
        try:
            return write_extension(entries)
        except LocalError:
            continue
    return b""


def telemetry_for(node: bytes, provider: TracerProvider | None) -> OpenTelemetry | None:
    """Give the telemetry of a node: by the provider given, else by the one that is set for the process, else none."""
    if provider is None:
        try:
            from opentelemetry import trace
        except ImportError:
            return None
        provider = trace.get_tracer_provider()
        if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
            return None
    return OpenTelemetry(provider, node)
