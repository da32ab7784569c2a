"""OpenTelemetry: a span where a message is sent, a span where it is handled, and a link between the two.

Only the API is used, and only when it is installed and somebody set a tracer provider. A flow is one trace: the span of
a handling is the child of the span that sent the message, and links to it as the messaging conventions ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hopline.actors.log import correlation_text
from hopline.message import Distribution, ExceptionReport, Message
from hopline.routing import Delivery

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

SYSTEM = "hopline"


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

        self.context, self.trace = context, trace
        self._tracer = provider.get_tracer("hopline")
        self._node = node.decode("utf-8", "backslashreplace")

    def producing(self, message: Message) -> ProducerSpan:
        """Begin the span of a message that is being sent, under whatever span is current."""
        attributes = self._attributes(message, "send")
        name = f"send {attributes['messaging.destination.name']}"
        return _Producer(self._tracer.start_span(name, kind=self.trace.SpanKind.PRODUCER, attributes=attributes))

    def begin(self, delivery: Delivery, handler: str) -> _Handling:
        """Begin the span of a handling, under the span that sent the message, and make it current."""
        trace = self.trace
        attributes = self._attributes(delivery.message, "process") | {"code.function.name": handler}
        parent, links = self.context.Context(), []
        if isinstance(delivery.origin, trace.SpanContext):
            parent = trace.set_span_in_context(trace.NonRecordingSpan(delivery.origin), parent)
            links = [trace.Link(delivery.origin)]
        name = f"process {attributes['messaging.destination.name']}"
        span = self._tracer.start_span(name, parent, kind=trace.SpanKind.CONSUMER, attributes=attributes, links=links)
        return _Handling(self, span)

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
