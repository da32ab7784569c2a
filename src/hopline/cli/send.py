"""``hopline send``: send a message into a running network, and show what comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated

import msgspec
import typer

from hopline.cli.bodies import Writing, as_document, body_of, body_text
from hopline.cli.client import everybody, joined_node
from hopline.cli.console import UsageError, one_line_errors, say, say_json
from hopline.cli.names import kind_of, kind_text, name_of, node_named, short
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    JsonOption,
    RendezvousOption,
    WireFormatOption,
    client_configuration,
)
from hopline.config import Configuration
from hopline.message import AnswerTimeoutError, DeliveryError, Distribution, Message, MessageIdentifier
from hopline.node import Node
from hopline.routing import Outcome, Settled

EPILOG = """
**Examples**

    hopline send Greet '{"name": "world"}' --callback Greeting
    hopline send ORDER.PRICE/2/eu '{"sku": 4711}' --callback ORDER.PRICED --callback ORDER.REFUSED --timeout 2
    hopline send Reload --broadcast
    hopline send BLOB --file picture.png --raw --receipt
    hopline send HELLO --hex 0a026869 --callback EHHLO

The body is JSON and is written as MessagePack, as Hopline's payloads are. Without one it is an empty object. An answer
is read as MessagePack, JSON or text, whichever it is, or shown as hex.

**Exit code**: 0 when it was answered (or, without a callback, sent), 1 when it reached nobody or its actor failed, 2
when the command makes no sense, 3 when no answer came in time.
"""


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for."""

    message: Message
    callbacks: tuple[MessageIdentifier, ...]
    timeout: float
    to_node: str | None
    wants_receipt: bool
    as_json: bool


def send_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="NAME, NAME/VERSION or NAME/VERSION/PARTITION.")],
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="The body; JSON unless told otherwise.")] = None,
    json_bytes: Annotated[bool, typer.Option("--json-bytes", help="Send the JSON as it is.")] = False,
    raw: Annotated[bool, typer.Option("--raw", "--text", help="Send the bytes or the text as they are.")] = False,
    hex_body: Annotated[bool, typer.Option("--hex", help="The body is hex.")] = False,
    file: Annotated[str | None, typer.Option("--file", help="Read the body from a file, or - for stdin.")] = None,
    callback: Annotated[
        list[str] | None, typer.Option("--callback", help="The answer to wait for; several: the first to come.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait.")] = 10.0,
    broadcast: Annotated[bool, typer.Option("--broadcast", help="To every actor that handles it.")] = False,
    to_node: Annotated[str | None, typer.Option("--to-node", help="To one node, by how its identity begins.")] = None,
    receipt: Annotated[bool, typer.Option("--receipt", help="Wait until an actor's mailbox has taken it.")] = False,
    version: Annotated[int | None, typer.Option("--version", help="Version of the kind.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="Partition of the kind.")] = None,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Send a message into a running network, and show the answer."""
    with one_line_errors("send", debug=debug):
        writings = {Writing.JSON: json_bytes, Writing.RAW: raw, Writing.HEX: hex_body}
        order = _Order(
            message=message_of(kind_of(kind, version, partition), body_of(body, file, writing_of(writings)), timeout),
            callbacks=tuple(kind_of(one) for one in callback or ()),
            timeout=timeout,
            to_node=to_node,
            wants_receipt=receipt,
            as_json=as_json,
        )
        if broadcast:
            if to_node or receipt:
                raise UsageError("a broadcast goes to all, and has no receipt: leave out --to-node and --receipt")
            order = msgspec.structs.replace(order, message=order.message.clone(distribution=Distribution.BROADCAST))
        configuration = client_configuration(config, rendezvous, wire_format)
        asyncio.run(_send(order, configuration))


send_command.__doc__ = f"{send_command.__doc__}\n{EPILOG}"


def writing_of(wanted: dict[Writing, bool]) -> Writing:
    """Tell how the body is written; at most one way may be asked for."""
    chosen = [writing for writing, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        raise UsageError("give at most one of --json-bytes, --raw and --hex")
    return chosen[0] if chosen else Writing.MSGPACK


def message_of(kind: MessageIdentifier, body: bytes, timeout: float) -> Message:
    """Make a message that lives as long as its sender waits."""
    ttl = timedelta(seconds=timeout)
    return Message.flow_start(kind.identity, body, version=kind.version, partition=kind.partition, ttl=ttl)


class _Fate:
    """What became of one message, and of its copies."""

    def __init__(self, message: Message) -> None:
        self._flow = message.correlation_id
        self.settled: list[Settled] = []
        self.is_known = asyncio.Event()

    def note(self, settled: Settled) -> None:
        if settled.message.correlation_id == self._flow:
            self.settled.append(settled)
            self.is_known.set()


async def _send(order: _Order, configuration: Configuration) -> None:
    fate = _Fate(order.message)
    async with joined_node(configuration, fate.note, order.timeout) as node:
        message = order.message
        if order.to_node is not None:
            message = message.with_receiver_node(node_named(order.to_node, await everybody(node)).identity)
        elif message.distribution == Distribution.BROADCAST:
            await everybody(node)
        started = time.perf_counter()
        show = _shower(order, lambda: time.perf_counter() - started)
        if order.callbacks and message.distribution == Distribution.BROADCAST:
            await _gather(node, message, order, show)
        elif order.callbacks:
            show(await node.hub.send(message, callback=order.callbacks, timeout=order.timeout))
        elif order.wants_receipt:
            await node.hub.send(message, timeout=order.timeout)
            seconds = time.perf_counter() - started
            if order.as_json:
                say_json({"kind": kind_text(message.identifier), "seconds": round(seconds, 6)})
            else:
                say(f"{kind_text(message.identifier)} was taken after {seconds * 1000:.1f} ms")
        else:
            await node.hub.send_one_way(message)
            await _tell_fate(message, fate, order)


def _shower(order: _Order, elapsed: Callable[[], float]) -> Callable[[Message], None]:
    def show(answer: Message) -> None:
        seconds = elapsed()
        if order.as_json:
            say_json(as_document(answer, seconds))
            return
        by = f" from {short(answer.routing[-1].identity)}" if answer.routing else ""
        say(f"{kind_text(answer.identifier)}{by} after {seconds * 1000:.1f} ms")
        say(body_text(answer.body))

    return show


async def _gather(node: Node, message: Message, order: _Order, show: Callable[[Message], None]) -> None:
    count = 0
    async with node.hub.stream(message, callback=order.callbacks, timeout=order.timeout) as answers:
        async for answer in answers:
            show(answer)
            count += 1
    for error in answers.errors:
        say(f"and an actor failed: {error}")
    if not count:
        raise AnswerTimeoutError(str(message.identifier), order.timeout)


async def _tell_fate(message: Message, fate: _Fate, order: _Order) -> None:
    try:
        async with asyncio.timeout(order.timeout):
            await fate.is_known.wait()
    except TimeoutError:
        raise AnswerTimeoutError(str(message.identifier), order.timeout) from None
    sent = [one for one in fate.settled if one.outcome is Outcome.SENT]
    if not sent:
        worst = fate.settled[0]
        raise DeliveryError(
            worst.outcome, f"{message.identifier}: {worst.reason}; `hopline routes` shows who handles what"
        )
    if order.as_json:
        nodes = [name_of(one.peer) for one in sent]
        say_json({"kind": kind_text(message.identifier), "sent_to": nodes})
    else:
        say(f"{kind_text(message.identifier)} was sent to {', '.join(short(one.peer) for one in sent)}")
