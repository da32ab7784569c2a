"""Log records say which flow they belong to."""

from __future__ import annotations

import asyncio
import io
import logging

import pytest

from hopline import (
    Actor,
    ActorError,
    CorrelationFilter,
    DeliveryError,
    Message,
    MessageIdentifier,
    Node,
    Payload,
    handler,
    to_message,
)


class Ask(Payload):
    number: int


class Told(Payload):
    number: int


class Talkative(Actor):
    @handler
    async def answer(self, ask: Ask) -> Told:
        logging.getLogger("shop").warning("asked for %d", ask.number)
        await asyncio.sleep(0)
        logging.getLogger("shop").warning("answering %d", ask.number)
        if ask.number < 0:
            raise ValueError("negative")
        return Told(ask.number)

    @handler(blocking=True)
    def block(self, told: Told) -> None:
        logging.getLogger("shop").warning("blocking")


def test_records_of_handlers_and_of_hopline_carry_the_correlation_id(caplog: pytest.LogCaptureFixture) -> None:
    asks = [to_message(Ask(number)) for number in (1, 2, -1)]
    blocked, unknown = to_message(Told(1)), to_message(Ask(5), partition=b"nowhere")

    async def run() -> None:
        async with Node(Talkative()) as node:
            calls = [node.hub.send(ask, callback=Told) for ask in asks]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(answers[2], ActorError)
            await node.hub.send(blocked)
            with pytest.raises(DeliveryError):
                await node.hub.send(unknown, callback=Told)

    caplog.handler.addFilter(CorrelationFilter())
    logging.getLogger("shop").warning("outside")
    asyncio.run(run())
    flows = {record.getMessage(): getattr(record, "correlation_id", None) for record in caplog.records}
    assert flows["outside"] == "-"
    assert flows["asked for 1"] == flows["answering 1"] == asks[0].correlation_id.decode()
    assert flows["asked for 2"] == flows["answering 2"] == asks[1].correlation_id.decode()
    failed = "the handler of Ask/1 in Talkative failed: ValueError: negative"
    assert flows["asked for -1"] == flows[failed] == asks[2].correlation_id.decode()
    assert flows["blocking"] == blocked.correlation_id.decode()
    assert (
        flows["Ask/1/nowhere ended as unroutable: nobody handles it; its flow waits for Told/1"]
        == unknown.correlation_id.decode()
    )


def test_every_record_of_hopline_says_its_flow_without_a_filter(caplog: pytest.LogCaptureFixture) -> None:
    class Idle(Actor):
        pass

    async def run() -> None:
        async with Node(Idle()):
            pass

    asyncio.run(run())
    assert [(record.getMessage(), record.__dict__["correlation_id"]) for record in caplog.records] == [
        ("test_every_record_of_hopline_says_its_flow_without_a_filter.<locals>.Idle handles nothing", "-")
    ]


def test_what_strangers_chose_neither_forges_records_nor_floods_the_log() -> None:
    """Identity, partition, correlation id, awaited answer and the text of an error, each hostile and of 20 MB."""
    hostile = b"\n2026-01-01 WARNING forged \x1b[2J\xc2\x9b\xe2\x80\xae" + b"x" * 20_000_000
    log = io.StringIO()
    output = logging.StreamHandler(log)
    output.addFilter(CorrelationFilter())
    output.setFormatter(logging.Formatter("RECORD %(correlation_id)s %(message)s"))

    class Failing(Actor):
        @handler
        def fail(self, ask: Ask) -> None:
            raise ValueError(hostile.decode())

    async def run() -> None:
        async with Node(Failing()) as node:
            messages = [
                Message.flow_start(hostile, b""),
                Message.flow_start(b"ORDER", b"", partition=hostile),
                Message.flow_start(b"ORDER", b"").clone(correlation_id=hostile),
            ]
            for message in messages:
                with pytest.raises(DeliveryError):
                    await node.hub.send(message, callback=Told)
            with pytest.raises(DeliveryError):
                await node.hub.send(Message.flow_start(b"ORDER", b""), callback=MessageIdentifier(hostile))
            with pytest.raises(ActorError):
                await node.hub.send(Ask(1), callback=Told)

    logging.getLogger("hopline").addHandler(output)
    try:
        asyncio.run(run())
    finally:
        logging.getLogger("hopline").removeHandler(output)
    lines = log.getvalue().splitlines()
    slow = [line for line in lines if "held the event loop" in line]  # a machine may be busy
    assert len([line for line in lines if line.startswith("RECORD ")]) == 5 + len(slow)
    assert all(line.startswith(("RECORD ", "  ")) and line.isprintable() for line in lines)
    assert len(log.getvalue()) < 300_000
