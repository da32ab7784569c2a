"""``hopline send``: send a message into a running network, and show the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from hopline.cli.client import announcements, did_you_mean, discover_nodes, joined_node
from hopline.cli.errors import UsageError
from hopline.cli.identifiers import find_node, identity_text, parse_kind, short_identity
from hopline.cli.message_bodies import (
    FileOption,
    HexOption,
    JsonBytesOption,
    KindArgument,
    PartitionOption,
    RawOption,
    ToNodeOption,
    VersionOption,
    answer_document,
    body_text,
    chosen_encoding,
    encode_body,
    new_message,
)
from hopline.cli.network_command import network_command
from hopline.cli.options import JsonOption
from hopline.cli.terminal import write_json, write_line, write_note, write_wrapped
from hopline.config import Configuration
from hopline.message import AnswerTimeoutError, DeliveryError, Distribution, Message, MessageIdentifier
from hopline.node import Node
from hopline.routing import MessageOutcome, Outcome

EPILOG = """
**Examples**

    hopline send Greet '{"name": "world"}' --callback Greeting
    hopline send ORDER.PRICE/2/eu '{"sku": 4711}' --callback ORDER.PRICED \\
        --callback ORDER.REFUSED --timeout 2
    hopline send Reload --broadcast
    hopline send BLOB --file picture.png --raw --receipt
    hopline send HELLO --hex 0a026869 --callback EHHLO

The body is written as JSON and sent as MessagePack, the default of Hopline's payloads. Without a body, an empty object
is sent. An answer is shown as MessagePack, JSON or text if it can be read as such, and as hex otherwise.

A message that no node handles waits for one, because a node may just be starting. If a node handles something similar,
`did you mean` is written to standard error at once; Ctrl-C ends the wait.

**Exit codes**: 0 answered (without a callback: sent), 1 not delivered, or its handler failed, 2 wrong usage, 3 no
answer in time.
"""


_ROUTES_HINT = "`hopline routes` lists which node handles which message"


class NoAnswerError(AnswerTimeoutError):
    """No answer came of the kinds that are waited for; there may have been one of another kind."""

    def __init__(self, asked: str, seconds: float, awaited: tuple[MessageIdentifier, ...]) -> None:
        super().__init__(asked, seconds)
        self.args = (asked, seconds, awaited)
        self.awaited = awaited

    def __str__(self) -> str:
        kinds = " or ".join(map(str, self.awaited))
        return f"{super().__str__()}: no {kinds} came; `hopline tail` shows which answers there are"


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """The message to send, and how to wait for its answers."""

    message: Message
    callbacks: tuple[MessageIdentifier, ...]
    timeout: float
    to_node: str | None
    wants_receipt: bool
    as_json: bool

    @property
    def is_broadcast(self) -> bool:
        return self.message.distribution == Distribution.BROADCAST


@network_command("send", EPILOG)
def send_command(
    configuration: Configuration,
    kind: KindArgument,
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help="The body, as JSON unless an option says otherwise.")
    ] = None,
    json_bytes: JsonBytesOption = False,
    raw: RawOption = False,
    hex_body: HexOption = False,
    file: FileOption = None,
    callback: Annotated[
        list[str] | None,
        typer.Option("--callback", metavar="KIND", help="Answer to wait for; may be repeated, the first one counts."),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait for the answer.")] = 10.0,
    broadcast: Annotated[bool, typer.Option("--broadcast", help="Send to every actor that handles it.")] = False,
    to_node: ToNodeOption = None,
    receipt: Annotated[bool, typer.Option("--receipt", help="Wait until an actor's mailbox has accepted it.")] = False,
    version: VersionOption = None,
    partition: PartitionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a message into a running network, and show its answer."""
    if broadcast and (to_node or receipt):
        raise UsageError("a broadcast goes to every node, and has no receipt: remove --to-node and --receipt")
    encoding = chosen_encoding(json_bytes=json_bytes, raw=raw, hex_body=hex_body)
    message = new_message(parse_kind(kind, version, partition), encode_body(body, file, encoding), timeout)
    if broadcast:
        message = message.clone(distribution=Distribution.BROADCAST)
    request = _Request(
        message=message,
        callbacks=tuple(parse_kind(text) for text in callback or ()),
        timeout=timeout,
        to_node=to_node,
        wants_receipt=receipt,
        as_json=as_json,
    )
    asyncio.run(_send(request, configuration))


class _Outcomes:
    """The outcomes of one message and of its copies."""

    def __init__(self, message: Message) -> None:
        self._flow = message.correlation_id
        self.outcomes: list[MessageOutcome] = []
        self.is_known = asyncio.Event()

    def add(self, outcome: MessageOutcome) -> None:
        if outcome.message.correlation_id == self._flow:
            self.outcomes.append(outcome)
            self.is_known.set()


async def _send(request: _Request, configuration: Configuration) -> None:
    outcomes = _Outcomes(request.message)
    async with joined_node(configuration, outcomes.add, request.timeout) as node:
        message = request.message
        if request.to_node is not None:
            receiver = find_node(request.to_node, await discover_nodes(node))
            message = message.with_receiver_node(receiver.identity)
        elif request.is_broadcast:
            await discover_nodes(node)
        suggesting = None
        if request.to_node is None:
            suggesting = asyncio.ensure_future(_suggest_kinds(node, message.identifier))
        try:
            await _send_and_show(node, message, request, outcomes)
        finally:
            if suggesting is not None:
                suggesting.cancel()


async def _suggest_kinds(node: Node, kind: MessageIdentifier) -> None:
    """Write at once what was perhaps meant by a kind that no node handles; it may still be announced."""
    await announcements(node)
    suggestion = did_you_mean(kind, node.known_nodes)
    if suggestion:
        seconds = node.settings.discovery_timeout
        write_note(f"hopline send: no node handles {kind} yet; {suggestion} Waiting for one for {seconds:g} s")


async def _send_and_show(node: Node, message: Message, request: _Request, outcomes: _Outcomes) -> None:
    started = time.perf_counter()

    def show(answer: Message) -> None:
        _show_answer(answer, time.perf_counter() - started, as_json=request.as_json)

    if request.callbacks and request.is_broadcast:
        await _show_all_answers(node, message, request, show)
    elif request.callbacks:
        show(await _answer(node, message, request))
    elif request.wants_receipt:
        await node.hub.send(message, timeout=request.timeout)
        _show_receipt(message, time.perf_counter() - started, as_json=request.as_json)
    else:
        await node.hub.send_one_way(message)
        await _show_receivers(message, outcomes, request)


async def _answer(node: Node, message: Message, request: _Request) -> Message:
    """Return the answer; name the remedy if no node handles the message."""
    try:
        answer: Message = await node.hub.send(message, callback=request.callbacks, timeout=request.timeout)
    except DeliveryError as error:
        if error.outcome == Outcome.UNROUTABLE:
            raise DeliveryError(error.outcome, f"{error.text}; {_ROUTES_HINT}") from error
        raise
    except AnswerTimeoutError as error:
        raise NoAnswerError(error.asked, error.seconds, request.callbacks) from None
    return answer


def _show_answer(answer: Message, seconds: float, *, as_json: bool) -> None:
    if as_json:
        write_json(answer_document(answer, seconds))
        return
    sender = f" from {short_identity(answer.routing[-1].identity)}" if answer.routing else ""
    write_wrapped(f"{answer.identifier}{sender} after {seconds * 1000:.1f} ms")
    write_line(body_text(answer.body))


def _show_receipt(message: Message, seconds: float, *, as_json: bool) -> None:
    if as_json:
        write_json({"kind": str(message.identifier), "seconds": round(seconds, 6)})
    else:
        write_wrapped(f"{message.identifier} accepted after {seconds * 1000:.1f} ms")


async def _show_all_answers(node: Node, message: Message, request: _Request, show: Callable[[Message], None]) -> None:
    """Show the answers to a broadcast until the timeout, and then the errors."""
    count = 0
    async with node.hub.stream(message, callback=request.callbacks, timeout=request.timeout) as answers:
        async for answer in answers:
            show(answer)
            count += 1
    for error in answers.errors:
        write_wrapped(f"an actor failed: {error}")
    if not count:
        raise NoAnswerError(str(message.identifier), request.timeout, request.callbacks)


async def _show_receivers(message: Message, outcomes: _Outcomes, request: _Request) -> None:
    """Wait until a one-way message has an outcome, and show the nodes that it was sent to."""
    try:
        async with asyncio.timeout(request.timeout):
            await outcomes.is_known.wait()
    except TimeoutError:
        raise AnswerTimeoutError(str(message.identifier), request.timeout) from None
    receivers = [outcome.peer for outcome in outcomes.outcomes if outcome.outcome is Outcome.SENT]
    if not receivers:
        failure = outcomes.outcomes[0]
        raise DeliveryError(failure.outcome, f"{message.identifier}: {failure.reason}; {_ROUTES_HINT}")
    if request.as_json:
        write_json({"kind": str(message.identifier), "sent_to": [identity_text(peer) for peer in receivers]})
    else:
        write_wrapped(f"{message.identifier} sent to {', '.join(map(short_identity, receivers))}")
