"""Sending to a receiver that is busy, broken, picky, or not there. No Spark: what one task does."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from email.utils import formatdate
from socket import socket

import pytest

from hopline.export.job import EndpointError, require_all_taken
from hopline.export.options import endpoint_of
from hopline.export.post import Endpoint, Sender, Sent
from hopline.message import ArgumentError
from tests.export.collector import Answer, Collector, Plan, collector

LINES = 10


def line(number: int) -> tuple[str, int]:
    """Write a request with one span."""
    span = {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "name": f"send ÉTAT-{number}",
        "kind": 4,
        "attributes": [{"key": "messaging.message.conversation_id", "value": {"stringValue": str(number)}}],
    }
    scope = {"scope": {"name": "hopline"}, "spans": [span]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "a"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}, separators=(",", ":")), 1


def quick(url: str) -> Endpoint:
    return Endpoint(url, first_delay_s=0.001, longest_delay_s=0.002, batch_spans=2)


def send(plan: Plan = lambda _: None, **settings: object) -> tuple[Sent, Collector, list[float]]:
    """Send ten spans in batches of two, without waiting."""
    delays: list[float] = []
    with collector(plan) as receiving:
        endpoint = replace(quick(receiving.url), **settings)  # type: ignore[arg-type]
        sent = Sender(endpoint, delays.append).send_all(line(number) for number in range(LINES))
    assert receiving.problems == []
    return sent, receiving, delays


def test_all_spans_arrive_in_batches() -> None:
    sent, receiving, delays = send()
    assert sent == Sent(batches=5, spans=LINES)
    assert [span.name for span in receiving.spans] == [f"send ÉTAT-{number}" for number in range(LINES)]
    assert receiving.requests == 5
    assert delays == []


def test_a_batch_is_never_larger_than_is_asked_for_unless_it_is_one_line() -> None:
    sent, receiving, _ = send(batch_spans=100, batch_bytes=len(line(0)[0]))
    assert (sent.batches, receiving.requests) == (LINES, LINES)


def test_headers_are_sent() -> None:
    _, receiving, _ = send(headers={"Authorization": "Bearer 1"})
    assert {headers["Authorization"] for headers in receiving.headers} == {"Bearer 1"}


def test_headers_are_not_shown() -> None:
    assert "Bearer" not in repr(Endpoint("http://a/v1/traces", headers={"Authorization": "Bearer 1"}))


@pytest.mark.parametrize("status", [0, 429, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int) -> None:
    sent, receiving, delays = send(lambda nth: Answer(status) if nth % 2 == 0 else None)
    assert sent == Sent(batches=5, spans=LINES, retries=5)
    assert len(receiving.spans) == LINES
    assert len(delays) == 5


@pytest.mark.parametrize("status", [301, 400, 401, 404, 413, 500])
def test_other_refusals_are_final_for_the_batch_and_counted(status: int) -> None:
    sent, receiving, delays = send(lambda nth: Answer(status, body=b"not\x1b this\none") if nth == 1 else None)
    assert (sent.spans, sent.failed, sent.retries) == (LINES - 2, 2, 0)
    assert sent.problem is not None
    assert sent.problem.startswith(str(status))
    assert len(receiving.spans) == LINES - 2
    assert delays == []


def test_waiting_doubles_with_some_jitter_up_to_a_limit() -> None:
    sent, _, delays = send(lambda _: Answer(503), attempts=6, first_delay_s=1.0, longest_delay_s=6.0, batch_spans=LINES)
    assert (sent.failed, sent.retries) == (LINES, 5)
    for nth, delay in enumerate(delays):
        assert min(0.5 * 2**nth, 6.0) <= delay <= min(1.5 * 2**nth, 6.0)


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [("3", 3, 3), ("0", 0, 0), ("date", 2, 20), ("soon", 0.0005, 0.0015), ("-1", 0.0005, 0.0015)],
)
def test_the_time_that_the_server_names_is_waited(header: str, low: float, high: float) -> None:
    value = formatdate(time.time() + 20, usegmt=True) if header == "date" else header
    answer = Answer(429, {"Retry-After": value})
    _, _, delays = send(lambda nth: answer if nth == 0 else None, longest_delay_s=60.0)
    assert len(delays) == 1
    assert low <= delays[0] <= high


def test_a_server_that_is_always_busy_fails_each_batch_and_all_are_tried() -> None:
    sent, receiving, _ = send(lambda _: Answer(503), attempts=2)
    assert (sent.batches, sent.spans, sent.failed, sent.retries) == (5, 0, LINES, 5)
    assert receiving.requests == 10
    assert sent.problem == "503 Service Unavailable"


def test_where_nobody_answers_the_rest_is_given_up_at_once() -> None:
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    delays: list[float] = []
    endpoint = replace(quick(f"http://127.0.0.1:{port}/v1/traces"), attempts=3)
    sent = Sender(endpoint, delays.append).send_all(line(number) for number in range(LINES))
    assert (sent.batches, sent.failed, sent.retries, len(delays)) == (5, LINES, 2, 2)
    assert sent.problem == "no answer: Connection refused"


def test_spans_that_the_server_rejects_are_counted() -> None:
    said = {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}
    answer = Answer(200, body=json.dumps(said).encode(), takes=True)
    sent, _, _ = send(lambda nth: answer if nth == 0 else None)
    assert (sent.spans, sent.rejected, sent.failed) == (LINES - 1, 1, 0)
    assert sent.problem == "spans rejected: too old"


def test_spans_that_were_not_taken_are_an_error_that_counts_them() -> None:
    endpoint = quick("http://a/v1/traces")
    require_all_taken(Sent(batches=1, spans=3), endpoint)
    with pytest.raises(EndpointError, match=r"^3 of 10 spans were not taken by http://a/v1/traces \(2 failed, 1 rej"):
        require_all_taken(Sent(batches=2, spans=7, rejected=1, failed=2, problem="413 Too Large"), endpoint)


@pytest.mark.parametrize("body", [b"", b"{}", b"\x0a\x00", b'{"partialSuccess": 3}', b"[" * 100_000])
def test_an_answer_that_says_nothing_took_all(body: bytes) -> None:
    sent, _, _ = send(lambda _: Answer(200, body=body, takes=True))
    assert sent == Sent(batches=5, spans=LINES)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://tempo/", "http://tempo/v1/traces"),
        ("https://api.example/otlp/v1/traces?tenant=1", "https://api.example/otlp/v1/traces?tenant=1"),
    ],
)
def test_an_endpoint_without_a_path_has_the_usual_one(url: str, expected: str) -> None:
    assert endpoint_of(url).url == expected


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://a:x", "http://u:p@a", "http://a/\x1b", "http://[a"],
)
def test_what_is_no_address_of_a_web_server_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError, match="endpoint") as refused:
        endpoint_of(url)
    assert ":p@" not in str(refused.value), "no password is repeated"
