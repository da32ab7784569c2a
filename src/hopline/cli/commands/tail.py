"""``hopline tail``: the messages of a running network, live."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from hopline.capture.events import Event
from hopline.cli.client import did_you_mean, discover_nodes, fetch_tail, joined_node
from hopline.cli.durations import milliseconds
from hopline.cli.errors import UsageError
from hopline.cli.identifiers import NO_OTHER_NODE, find_node, identity_text, parse_pattern, short_identity
from hopline.cli.message_bodies import body_text
from hopline.cli.network_command import network_command
from hopline.cli.options import JsonOption
from hopline.cli.signals import Signals
from hopline.cli.terminal import make_console, write_json, write_line, write_note, write_wrapped
from hopline.config import Configuration
from hopline.display.bodies import plain_keys, read_body
from hopline.message import HoplineError, MessageIdentifier, printable, printable_name
from hopline.node import Node
from hopline.observers.tail import HIGHEST_RATE, LARGEST_BODY, Fetched, KindPattern, TailFilter, TailRecord
from hopline.routing import KnownNode

EPILOG = """
**Examples**

    hopline tail
    hopline tail Order Shipped/2 --body
    hopline tail --node shop-1 --all
    hopline tail --flow 81bca2c9-8c03-4b94-9218-0b4366e63300 --json | jq .reason

Every message is shown once for each actor or caller that gets it, and once if it ends badly or its handler fails. With
`--all` it is also shown when it is submitted, sent to another node, received from one, and handled.

Nodes keep what they show for this command only while it runs, and bounded: `--rate` messages a second on each node, and
1 MiB between two of its questions. What does not fit is left out, and its number shown; the messages themselves are
neither lost nor delayed. A body is shown as `hopline send` shows an answer.

With keys, a node shows its messages to members of its first signed domain only. Nodes of the reference have no tail;
what they exchange with Hopline nodes is seen there, with `--all`.

**Exit codes**: 0 after Ctrl-C, `--count` or `--for`, 1 no node shows its messages, 2 wrong usage.
"""

_INTERVAL = 0.2  # seconds between two questions to a node
_ROUND_TIME = 0.5  # seconds to wait for the slower nodes, before what others have said is shown
_FAREWELL_TIME = 0.5  # seconds to tell the nodes that this command ends
_INDENT = "    "
_SEPARATOR = "  "
_NAMES_PEER = (Event.SENT, Event.RECEIVED)  # whose texts name the other node themselves


class NoTailError(HoplineError):
    """No node shows its messages."""


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show, and until when."""

    wanted: TailFilter
    nodes: tuple[str, ...]
    count: float
    seconds: float
    shows_bodies: bool
    as_json: bool


@network_command("tail", EPILOG)
def tail_command(
    configuration: Configuration,
    kinds: Annotated[
        list[str] | None,
        typer.Argument(metavar="KIND", help="NAME (of any version), NAME/VERSION or NAME/VERSION/PARTITION."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NODE", help="Only on this node: its identity, how it begins, or its address."),
    ] = None,
    flow: Annotated[
        str | None, typer.Option("--flow", metavar="ID", help="Only this flow: the correlation id of its messages.")
    ] = None,
    body: Annotated[bool, typer.Option("--body", "-b", help="Show the bodies, decoded.")] = False,
    body_limit: Annotated[
        int, typer.Option("--body-limit", min=1, max=LARGEST_BODY, help="Bytes of a body that are fetched.")
    ] = 4096,
    every_event: Annotated[
        bool, typer.Option("--all", "-a", help="Also what is submitted, sent, received, and handled.")
    ] = False,
    rate: Annotated[
        int, typer.Option("--rate", min=1, max=HIGHEST_RATE, help="Messages a second that a node shows.")
    ] = 100,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many messages.")] = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0.1, help="End after so many seconds.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the messages of a running network as they are delivered or fail, until Ctrl-C."""
    wanted = TailFilter(
        kinds=tuple(map(parse_pattern, kinds or ())),
        flow=(flow or "").encode(),
        has_every_event=every_event,
        body_bytes=body_limit if body else 0,
        rate=rate,
    )
    if problem := wanted.problem():
        raise UsageError(problem)
    options = _Options(
        wanted=wanted,
        nodes=tuple(node or ()),
        count=math.inf if count is None else count,
        seconds=math.inf if seconds is None else seconds,
        shows_bodies=body,
        as_json=as_json,
    )
    asyncio.run(_tail(options, configuration))


async def _tail(options: _Options, configuration: Configuration) -> None:
    signals = Signals()
    async with joined_node(configuration) as node:
        known = await discover_nodes(node)
        chosen = {find_node(name, known).identity for name in options.nodes}
        _suggest_kinds(options.wanted.kinds, known)
        tail = _Tail(node, options, chosen)
        try:
            async with asyncio.timeout(None if math.isinf(options.seconds) else options.seconds):
                await tail.follow(signals.stop_requested)
        except TimeoutError:
            pass
        finally:
            await tail.end()


def _suggest_kinds(patterns: Iterable[KindPattern], nodes: list[KnownNode]) -> None:
    """Write what was perhaps meant by kinds that no node handles. They may be answers, or be announced later."""
    handled = {kind for node in nodes for kinds in node.actors.values() for kind in kinds}
    for pattern in patterns:
        if any(pattern.matches(kind) for kind in handled):
            continue
        version = 1 if pattern.version is None else pattern.version
        kind = MessageIdentifier(pattern.identity, version, pattern.partition or b"")
        suggestion = did_you_mean(kind, nodes)
        if suggestion:
            write_note(f"hopline tail: no node handles {kind}; {suggestion} Answers of that name are shown, too")


class _Tail:
    """Asks the nodes for their messages again and again, and shows them: the chosen ones, or all if none is chosen."""

    def __init__(self, node: Node, options: _Options, chosen: set[bytes]) -> None:
        self._node = node
        self._options = options
        self._chosen = chosen
        self._questions: dict[bytes, asyncio.Task[Fetched | None]] = {}  # under way, by node
        self._answering: set[bytes] = set()
        self._silent: set[bytes] = set()
        self._is_announced = False  # whether the first answers have come
        self._shown = 0
        self._left_out = 0
        self._width = make_console().width

    async def follow(self, stop: asyncio.Event) -> None:
        """Show messages until a stop is requested, or there were enough."""
        while not stop.is_set() and self._shown < self._options.count:
            answers = await self._round()
            if not self._is_announced and not self._questions:
                self._announce()
            self._show_all(answers)
            try:
                async with asyncio.timeout(_INTERVAL):
                    await stop.wait()
            except TimeoutError:
                continue

    def _announce(self) -> None:
        """Write which nodes show their messages; raise `NoTailError` if none does."""
        if self._silent and not self._answering:
            remedy = "a node shows them to members of its first signed domain: see --config"
            raise NoTailError(f"no node shows its messages: not Hopline nodes, too busy, or refused; {remedy}")
        self._is_announced = True
        count = len(self._answering)
        if count:
            self._note(f"messages of {count} node{'' if count == 1 else 's'}; Ctrl-C ends")
        else:
            self._note(f"{NO_OTHER_NODE}; Ctrl-C ends")

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _round(self) -> list[tuple[bytes, Fetched]]:
        """Ask every node that is not being asked already; return the answers that came in time, also to older ones."""
        hub, reader = self._node.hub, self._node.identity
        for node in (known.identity for known in self._node.known_nodes):
            is_wanted = not self._chosen or node in self._chosen
            if is_wanted and node not in self._questions:
                question = fetch_tail(hub, node, reader, self._options.wanted)
                self._questions[node] = asyncio.ensure_future(question)
        if self._questions:
            await asyncio.wait(self._questions.values(), timeout=_ROUND_TIME)
        return self._answers()

    def _answers(self) -> list[tuple[bytes, Fetched]]:
        """Return what has been answered since the last call."""
        answered = [node for node, question in self._questions.items() if question.done()]
        answers = []
        for node in answered:
            answer = self._questions.pop(node).result()
            if self._accept(node, answer) and answer is not None:
                answers.append((node, answer))
        return answers

    def _accept(self, node: bytes, answer: Fetched | None) -> bool:
        """Note whether a node shows its messages; write so if that has changed."""
        if answer is not None and not answer.problem:
            self._answering.add(node)
            self._silent.discard(node)
            return True
        is_gone = node not in {known.identity for known in self._node.known_nodes}
        if node not in self._silent and not is_gone:
            self._silent.add(node)
            problem = "no answer: not a Hopline node, too busy, or it refuses" if answer is None else answer.problem
            self._note(f"node {short_identity(node)}: {printable(problem)}")
        return False

    async def end(self) -> None:
        """End the tails of the nodes, show the last messages, and write how many there were."""
        hub, reader = self._node.hub, self._node.identity
        nodes = list(self._answering)
        farewells = await asyncio.gather(*(fetch_tail(hub, node, reader, None, _FAREWELL_TIME) for node in nodes))
        answers = self._answers()  # to questions that were under way: what they fetched is nowhere else
        for question in self._questions.values():
            question.cancel()
        answers += [(node, answer) for node, answer in zip(nodes, farewells, strict=True) if answer is not None]
        self._show_all(answers)
        if self._is_announced:
            self._note(f"{self._shown:,} shown, {self._left_out:,} left out")

    # -- showing -------------------------------------------------------------------------------------------------------

    def _show_all(self, answers: list[tuple[bytes, Fetched]]) -> None:
        """Show what the nodes have reported, in the order of their clocks."""
        reported = [(node, record) for node, answer in answers for record in answer.records]
        reported.sort(key=lambda entry: entry[1].at)
        for node, record in reported:
            if self._shown >= self._options.count:
                return
            self._shown += 1
            self._show(node, record)
        for node, answer in answers:
            if answer.left_out:
                self._left_out += answer.left_out
                self._show_left_out(node, answer.left_out)

    def _show(self, node: bytes, record: TailRecord) -> None:
        if self._options.as_json:
            write_json(_document(node, record, shows_body=self._options.shows_bodies))
            return
        for line in _lines(node, record, self._width):
            write_line(line)
        if self._options.shows_bodies:
            for line in _body_lines(record):
                write_line(f"{_INDENT}{line}")

    def _show_left_out(self, node: bytes, count: int) -> None:
        if self._options.as_json:
            write_json({"node": identity_text(node), "left_out": count})
        else:
            write_wrapped(f"... {count:,} more on {short_identity(node)} were left out; --rate or a KIND shows others")

    def _note(self, text: str) -> None:
        """Write something that is no message, beside the output."""
        write_note(f"hopline tail: {text}")


# -- as text -----------------------------------------------------------------------------------------------------------


def _lines(node: bytes, record: TailRecord, width: int) -> list[str]:
    """Return a message as one line, or as several where one is too narrow; nothing is cut."""
    clock = datetime.fromtimestamp(record.at).astimezone().strftime("%H:%M:%S.%f")[:-3]
    parts = [clock, short_identity(node), _kind_text(record), _event_text(record)]
    if record.peer and record.event not in _NAMES_PEER:
        parts.append(f"from {short_identity(record.peer)}")
    if record.seconds is not None:
        parts.append(milliseconds(record.seconds))
    parts += [f"{record.size:,} B", f"flow {printable_name(record.flow)}"]
    if record.reason:
        parts.append(printable(record.reason))
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}{_SEPARATOR}{part}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(f"{_INDENT}{part}")
    return lines


def _kind_text(record: TailRecord) -> str:
    """Return the kind of a message; frames that could not be decoded have none."""
    return str(record.kind) if record.kind.identity else "(not decodable)"


def _event_text(record: TailRecord) -> str:
    peer = short_identity(record.peer) if record.peer else ""
    receiver = _receiver_text(record)
    match record.event:
        case Event.SENT:
            return f"sent to {peer}"
        case Event.RECEIVED:
            return f"received from {peer}"
        case Event.DELIVERED:
            return f"-> {receiver}"
        case Event.HANDLED:
            return f"{'failed in' if record.reason else 'handled by'} {receiver}"
    return printable(record.event)


def _receiver_text(record: TailRecord) -> str:
    names = [printable_name(name) for name in (record.actor, record.handler) if name]
    return ".".join(names) or f"caller {short_identity(record.receiver)}"


def _body_lines(record: TailRecord) -> list[str]:
    lines = body_text(record.body).splitlines()
    if record.size > len(record.body):
        lines.append(f"(the first {len(record.body):,} of {record.size:,} bytes)")
    return lines


# -- as JSON -----------------------------------------------------------------------------------------------------------


def _document(node: bytes, record: TailRecord, *, shows_body: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "at": round(record.at, 6),
        "node": identity_text(node),
        "event": printable(record.event),
        "kind": _kind_text(record),
        "flow": printable_name(record.flow),
        "size": record.size,
        "peer": identity_text(record.peer) if record.peer else None,
        "receiver": identity_text(record.receiver) if record.receiver else None,
        "actor": printable_name(record.actor) or None,
        "handler": printable_name(record.handler) or None,
        "seconds": None if record.seconds is None else round(record.seconds, 6),
        "reason": printable(record.reason) or None,
    }
    if shows_body:
        form, value = read_body(record.body)
        document |= {"form": form, "body": plain_keys(value), "raw": record.body.hex()}
    return document
