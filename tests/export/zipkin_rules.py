"""The rules of Zipkin's API v2 for a list of spans, as its OpenAPI document states them."""

from __future__ import annotations

import re
from typing import Any

KINDS = ("CLIENT", "SERVER", "PRODUCER", "CONSUMER")
PROPERTIES = {
    *("traceId", "name", "parentId", "id", "kind", "timestamp", "duration", "debug", "shared"),
    *("localEndpoint", "remoteEndpoint", "annotations", "tags"),
}
LONG = 2**63


def check_spans(spans: Any) -> list[dict[str, Any]]:
    """Return a list of spans, each of which is as the document asks."""
    assert isinstance(spans, list)
    for span in spans:
        check_span(span)
    return spans


def check_span(span: Any) -> None:
    assert isinstance(span, dict)
    assert span.keys() <= PROPERTIES
    assert {"traceId", "id"} <= span.keys(), "both are required"
    assert re.fullmatch("[a-f0-9]{16}|[a-f0-9]{32}", span["traceId"])
    assert re.fullmatch("[a-f0-9]{16}", span["id"])
    if "parentId" in span:
        assert re.fullmatch("[a-f0-9]{16}", span["parentId"])
        assert span["parentId"] != span["id"]
    if "kind" in span:
        assert span["kind"] in KINDS
    if "name" in span:
        assert isinstance(span["name"], str)
        assert span["name"] == span["name"].lower(), "in lowercase"
    for name in ("timestamp", "duration"):
        if name in span:
            assert type(span[name]) is int
            assert 0 < span[name] < LONG, "0 would be read as absent"
    for name in ("localEndpoint", "remoteEndpoint"):
        if name in span:
            check_endpoint(span[name])
    for annotation in span.get("annotations", []):
        assert annotation.keys() == {"timestamp", "value"}
        assert type(annotation["timestamp"]) is int
        assert isinstance(annotation["value"], str)
    for key, value in span.get("tags", {}).items():
        assert isinstance(key, str)
        assert isinstance(value, str)


def check_endpoint(endpoint: Any) -> None:
    assert isinstance(endpoint, dict)
    assert endpoint.keys() <= {"serviceName", "ipv4", "ipv6", "port"}
    if "serviceName" in endpoint:
        assert endpoint["serviceName"] == endpoint["serviceName"].lower(), "a lower-case label"
    if "port" in endpoint:
        assert 0 < endpoint["port"] < 65536, "please don't set to zero"
