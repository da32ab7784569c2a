"""`ask(..., retry=Retry(...))`: what is asked again, how often, within which time, and how one sees it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    CaptureLevel,
    CaptureSettings,
    Context,
    DeliveryError,
    HoplineError,
    Message,
    NodeSettings,
    Payload,
    Request,
    Retry,
    handler,
    to_message,
)
from hopline.capture.segment_files import segments_in
from hopline.decoding.keys import Keyring
from hopline.decoding.segments import read_segment
from hopline.message import ATTEMPT, LARGEST_EXTENSION, attempt_of, numbered, read_extension, write_extension
from hopline.routing import TICKS_PER_SECOND
from tests.capture.reading import message_of, rows_of

from .running import Clock, on_loop, started

AT_ONCE = 0.001


class Told(Payload):
    attempt: int


class Ask(Request[Told]):
    pass


class Outer(Request[Told]):
    pass


class Flaky(Actor):
    """Fails, or stays silent, until the attempt that works."""

    def __init__(self, works: int, *, is_silent: bool = False) -> None:
        self.works = works
        self.is_silent = is_silent
        self.messages: list[Message] = []

    @handler
    async def tell(self, ask: Ask, context: Context) -> Told:
        self.messages.append(context.message)
        if context.attempt < self.works:
            if self.is_silent:
                await asyncio.Event().wait()
            raise ValueError("not yet")
        return Told(context.attempt)

    @handler
    async def relay(self, outer: Outer, context: Context) -> Told:
        return await context.ask(Ask(), retry=Retry(5, AT_ONCE, on=(ActorError,)))


@on_loop
async def test_attempts_are_one_flow_and_each_but_the_first_has_its_number() -> None:
    actor = Flaky(works=3)
    async with started(actor) as node:
        assert await node.hub.ask(Ask(), retry=Retry(5, AT_ONCE, on=(ActorError,))) == Told(3)
    assert len({message.correlation_id for message in actor.messages}) == 1
    assert len({message.callback_key for message in actor.messages}) == 3
    assert [read_extension(message.extension) for message in actor.messages] == [{}, {ATTEMPT: 2}, {ATTEMPT: 3}]


@on_loop
async def test_the_last_error_is_raised_when_all_attempts_have_failed() -> None:
    actor = Flaky(works=9)
    async with started(actor) as node:
        with pytest.raises(ActorError, match="not yet"):
            await node.hub.ask(Ask(), retry=Retry(3, AT_ONCE, on=(ActorError,)))
    assert len(actor.messages) == 3


@on_loop
async def test_an_error_that_is_not_named_is_raised_at_once() -> None:
    actor = Flaky(works=2)
    async with started(actor) as node:
        with pytest.raises(ActorError):
            await node.hub.ask(Ask(), retry=Retry(3, AT_ONCE))
    assert len(actor.messages) == 1


@on_loop
async def test_an_attempt_waits_and_lives_for_its_own_time() -> None:
    actor = Flaky(works=2, is_silent=True)
    async with started(actor, settings=NodeSettings(drain_timeout=0.0)) as node:
        retry = Retry(50, AT_ONCE, attempt_timeout=0.5)
        told = await node.hub.ask(Ask(), retry=retry, timeout=30)
        assert told.attempt >= 2  # more on a machine that has much else to do
        assert node.hub.waiting == 0
    assert 0 < actor.messages[0].ttl_ticks <= 0.5 * TICKS_PER_SECOND


@on_loop
async def test_no_pause_outlasts_the_deadline_of_the_caller() -> None:
    actor = Flaky(works=2)
    async with started(actor) as node:
        began = time.monotonic()
        with pytest.raises(ActorError):
            await node.hub.ask(Ask(), retry=Retry(5, backoff=60, on=(ActorError,)), timeout=59)
        assert time.monotonic() - began < 30
        with pytest.raises(AnswerTimeoutError):
            await node.hub.ask(Ask(), retry=Retry(5, AT_ONCE), timeout=0)


@on_loop
async def test_nothing_is_sent_when_a_pause_took_longer_than_the_time_that_was_left() -> None:
    clock = Clock()

    class Slept(Retry, frozen=True):
        """A pause during which the machine sleeps."""

        def pause_after(self, attempt: int) -> float:
            asyncio.get_running_loop().call_soon(setattr, clock, "now", clock.now + 60)
            return super().pause_after(attempt)

    actor = Flaky(works=2)
    async with started(actor, clock=clock) as node:
        with pytest.raises(ActorError):
            await node.hub.ask(Ask(), retry=Slept(3, AT_ONCE, on=(ActorError,)), timeout=30)
    assert len(actor.messages) == 1


@on_loop
async def test_a_request_that_reaches_nobody_is_sent_again_by_default() -> None:
    ended: list[Message] = []
    async with started(on_outcome=lambda outcome: ended.append(outcome.message)) as node:
        with pytest.raises(DeliveryError):
            await node.hub.ask(Ask(), retry=Retry(3, AT_ONCE))
    assert [attempt_of(message) for message in ended if message.identity == b"Ask"] == [1, 2, 3]


@on_loop
async def test_a_handler_asks_again_within_the_time_of_its_caller() -> None:
    actor = Flaky(works=3)
    async with started(actor) as node:
        assert await node.hub.ask(Outer(), timeout=20) == Told(3)
    assert all(0 < message.ttl_ticks <= 20 * TICKS_PER_SECOND for message in actor.messages)


@on_loop
async def test_spans_have_the_number_of_the_attempt() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with started(Flaky(works=2), tracer_provider=provider) as node:
        await node.hub.ask(Ask(), retry=Retry(2, AT_ONCE, on=(ActorError,)))
    spans = [span for span in exporter.get_finished_spans() if span.name == "process Ask"]
    assert [(span.attributes or {}).get("hopline.attempt") for span in spans] == [None, 2]


@on_loop
async def test_captures_have_the_number_of_the_attempt(tmp_path: Path) -> None:
    capture = CaptureSettings(directory=str(tmp_path), level=CaptureLevel.FULL)
    async with started(Flaky(works=3), capture=capture) as node:
        await node.hub.ask(Ask(), retry=Retry(3, AT_ONCE, on=(ActorError,)))
    asked = [message_of(row) for row in rows_of(tmp_path) if row["event"] == "delivered"]
    requests = [message for message in asked if message.identity == b"Ask"]
    assert [attempt_of(message) for message in requests] == [1, 2, 3]
    assert len({message.correlation_id for message in requests}) == 1
    decoded = [part for path in segments_in(tmp_path) for part in read_segment(str(path), _content(path), Keyring())]
    rows = [row for part in decoded for row in part.messages.to_pylist()]
    told = {(row["event"], row["identity"], row["attempt"]) for row in rows if row["event"] == "delivered"}
    assert {one for one in told if one[1] == "Ask"} == {("delivered", "Ask", attempt) for attempt in (1, 2, 3)}
    assert {row["attempt"] for row in rows if row["identity"] != "Ask"} == {1}


def _content(path: Path) -> pa.Buffer:
    return pa.py_buffer(path.read_bytes())


def test_many_attempts_without_a_pause_are_no_problem() -> None:
    assert Retry(attempts=10_000, backoff=0.0).pause_after(9_999) == 0.0


def test_a_number_that_is_none_counts_as_the_first_attempt() -> None:
    message = to_message(Ask())
    for entries in ({}, {ATTEMPT: "2"}, {ATTEMPT: True}, {ATTEMPT: -1}, {ATTEMPT: 1 << 31}, {ATTEMPT: [2]}):
        assert attempt_of(message.clone(extension=write_extension(entries))) == 1


def test_a_number_that_finds_no_place_is_left_out() -> None:
    full = write_extension({"state": "x" * (LARGEST_EXTENSION - 12)})
    message = to_message(Ask()).clone(extension=full)
    assert numbered(message, 2).extension == full
    some = message.clone(extension=write_extension({"state": "x"}))
    assert read_extension(numbered(some, 2).extension) == {"state": "x", ATTEMPT: 2}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attempts": 0}, "retry.attempts: expected a number, at least 1"),
        ({"backoff": -1}, "retry.backoff: expected a number, at least 0"),
        ({"on": HoplineError}, "retry.on: expected a tuple of exception classes"),
        ({"on": ("ValueError",)}, "retry.on: expected a tuple of exception classes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        Retry(**options)  # type: ignore[arg-type]
