"""Requests of OTLP/JSON, read by the published schema, and by the rules that OTLP adds to protobuf's JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

_ID_BYTES = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
_ENUMERATIONS = ("kind", "code")


@dataclass(frozen=True)
class Happening:
    """An event of a span."""

    time_us: int
    name: str
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Traced:
    """A span as a receiver sees it."""

    trace: str
    id: str
    parent: str
    node: str
    kind: str
    name: str
    start_us: int
    end_us: int
    attributes: dict[str, Any]
    events: list[Happening]
    links: dict[str, str]
    status: str
    status_text: str
    proto: trace_pb2.Span = field(repr=False)

    @property
    def flow(self) -> str:
        return str(self.attributes["messaging.message.conversation_id"])

    @property
    def record(self) -> tuple[str, int]:
        """Name the record that it begins with."""
        return self.node, self.attributes["hopline.seq"]


def read_request(text: str) -> ExportTraceServiceRequest:
    """Read one request; whatever the schema does not know is an error."""
    return ParseDict(_as_protobuf_writes_it(json.loads(text)), ExportTraceServiceRequest())


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Traced]:
    for of_resource in request.resource_spans:
        resource = _values(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            assert of_scope.scope.name == "hopline"
            for span in of_scope.spans:
                yield _traced(span, resource["service.name"])


def _traced(span: trace_pb2.Span, node: str) -> Traced:
    for link in span.links:
        assert link.trace_id == span.trace_id
    return Traced(
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        node=node,
        kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        name=span.name,
        start_us=span.start_time_unix_nano // 1000,
        end_us=span.end_time_unix_nano // 1000,
        attributes=_values(span.attributes),
        events=[Happening(one.time_unix_nano // 1000, one.name, _values(one.attributes)) for one in span.events],
        links={_values(link.attributes)["hopline.link"]: link.span_id.hex() for link in span.links},
        status=trace_pb2.Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        status_text=span.status.message,
        proto=span,
    )


def _values(attributes: Any) -> dict[str, Any]:
    pairs: list[KeyValue] = list(attributes)
    values = {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}
    assert len(values) == len(pairs), "a key is there twice"
    return values


def _as_protobuf_writes_it(value: Any) -> Any:
    """Turn ids from hexadecimal into the base64 of protobuf's own JSON; check what OTLP wants otherwise."""
    if isinstance(value, list):
        return [_as_protobuf_writes_it(one) for one in value]
    if not isinstance(value, dict):
        return value
    turned = {}
    for name, content in value.items():
        if name in _ID_BYTES:
            raw = bytes.fromhex(content)
            assert len(raw) == _ID_BYTES[name]
            assert any(raw)
            assert content == content.lower()
            turned[name] = base64.b64encode(raw).decode()
        else:
            assert name not in _ENUMERATIONS or isinstance(content, int), f"{name} is {content!r}, not a number"
            turned[name] = _as_protobuf_writes_it(content)
    return turned
