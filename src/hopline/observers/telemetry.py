"""OpenTelemetry: a span where a message is sent, a span where it is handled, and a link between the two.

Only the API of OpenTelemetry is used, and only if it is installed and a tracer provider is set. A flow is one trace:
the span of a handler is the child of the span that sent the message, and links to it as the messaging conventions ask.

Inside a node the sender's span travels as the delivery's `origin`. Between nodes its context travels in the message's
extension, as W3C Trace Context: it is added when a message that was created on this node leaves, and read where the
message is handled. A node that forwards a message from another node leaves the extension as it is.

The span of a message that has to wait for room begins when its sender begins to wait, and ends when the node takes the
message. The span of a message that is refused is never ended, and therefore never exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hopline.actors.log import correlation_text
from hopline.message import (
    Distribution,
    ExceptionReport,
    LocalError,
    Message,
    attempt_of,
    read_extension,
    write_extension,
)
from hopline.observers.observer import NodeObserver
from hopline.routing import Delivery

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, TracerProvider

SYSTEM = "hopline"
TRACE_CONTEXT = ("traceparent", "tracestate")
"""The names in a message's extension, which are those of the HTTP headers of W3C Trace Context."""


class _Handling:
    """The span of one handler, current until it is detached."""

    __slots__ = ("_api", "_span", "_token")

    def __init__(self, api: Any, span: Span) -> None:
        self._api = api
        self._span = span
        context = api.trace.set_span_in_context(span)
        self._token = api.context.attach(context)

    def detach(self) -> None:
        self._api.context.detach(self._token)

    def end(self, error: BaseException | None) -> None:
        if error is not None:
            status = self._api.trace.StatusCode.ERROR
            description = ExceptionReport.of(error).text
            self._span.set_attribute("error.type", type(error).__qualname__)
            self._span.set_status(status, description)
        self._span.end()


class OpenTelemetry(NodeObserver):
    """Creates spans by the messaging conventions of OpenTelemetry."""

    def __init__(self, provider: TracerProvider, node: bytes) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.context = context
        self.trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("hopline")
        self._node = node.decode("utf-8", "backslashreplace")

    def submitting(self, delivery: Delivery) -> Delivery:
        """Start the span of a message that is sent, as a child of the current span; keep it on the delivery."""
        if delivery.origin is not None:  # it waited for room, and its span began then
            return delivery
        attributes = self._attributes(delivery.message, "send")
        name = f"send {attributes['messaging.destination.name']}"
        span = self._tracer.start_span(name, kind=self.trace.SpanKind.PRODUCER, attributes=attributes)
        return msgspec.structs.replace(delivery, origin=span)

    def submitted(self, delivery: Delivery) -> None:
        """End the span of a message that the node has taken."""
        if isinstance(delivery.origin, self.trace.Span):
            delivery.origin.end()

    def sending(self, message: Message, delivery: Delivery) -> Message:
        """Return a message with the context of the span that sent it, for the node that handles it."""
        origin = delivery.origin
        if not isinstance(origin, self.trace.Span):
            return message
        trace_context: dict[str, str] = {}
        context = self._context_of(origin.get_span_context())
        self._propagator.inject(trace_context, context)
        extension = with_trace_context(message.extension, trace_context)
        return message.clone(extension=extension)

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> _Handling:  # noqa: ARG002 - the event's signature
        """Start the span of a handler, as a child of the span that sent the message, and make it current."""
        trace = self.trace
        attributes = self._attributes(delivery.message, "process")
        attributes["code.function.name"] = handler
        parent = self.context.Context()
        links = []
        origin = self._origin_of(delivery)
        if origin is not None:
            parent = self._context_of(origin)
            links = [trace.Link(origin)]
        name = f"process {attributes['messaging.destination.name']}"
        span = self._tracer.start_span(
            name,
            parent,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        )
        return _Handling(self, span)

    def _origin_of(self, delivery: Delivery) -> SpanContext | None:
        """Return the context of the span that sent a message, on this node or another."""
        if isinstance(delivery.origin, self.trace.Span):
            return delivery.origin.get_span_context()
        if not delivery.message.extension:
            return None
        return self._received_origin(delivery.message)

    def _context_of(self, origin: SpanContext) -> Context:
        span = self.trace.NonRecordingSpan(origin)
        return self.trace.set_span_in_context(span, self.context.Context())

    def _received_origin(self, message: Message) -> SpanContext | None:
        """Return the context that a message of another node carries, if it is valid."""
        entries = read_extension(message.extension)
        trace_context = {}
        for name in TRACE_CONTEXT:
            text = entries.get(name)
            if isinstance(text, str):
                trace_context[name] = text
        received = self._propagator.extract(trace_context, self.context.Context())
        origin = self.trace.get_current_span(received).get_span_context()
        return origin if origin.is_valid else None

    def _attributes(self, message: Message, operation: str) -> dict[str, Any]:
        attributes: dict[str, Any] = {
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
        attempt = attempt_of(message)
        if attempt > 1:
            attributes["hopline.attempt"] = attempt
        return attributes


def with_trace_context(extension: bytes, trace_context: Mapping[str, str]) -> bytes:
    """Return an extension with another trace context, and with its other entries as far as they fit.

    If the result would be too large, the other entries are dropped first, and then the trace state, as its standard
    allows.
    """
    entries_before = read_extension(extension)
    others = {name: value for name, value in entries_before.items() if name not in TRACE_CONTEXT}
    without_state = {name: text for name, text in trace_context.items() if name == TRACE_CONTEXT[0]}
    for entries in (others | dict(trace_context), trace_context, without_state):
        try:
            return write_extension(entries)
        except LocalError:
            continue
    return b""


def telemetry_for(node: bytes, provider: TracerProvider | None) -> OpenTelemetry | None:
    """Return the telemetry of a node, or None if there is no tracer provider.

    Args:
        node: The node's identity.
        provider: The tracer provider. Default: the one that is set for the process.
    """
    if provider is None:
        try:
            from opentelemetry import trace
        except ImportError:
            return None
        provider = trace.get_tracer_provider()
        if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
            return None
    return OpenTelemetry(provider, node)
