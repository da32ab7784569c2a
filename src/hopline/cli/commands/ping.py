"""``hopline ping``: how long a node takes to answer, and how often it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
import typer

from hopline.cli.client import ask, discover_nodes, joined_node, probe, raise_if_refused
from hopline.cli.durations import milliseconds
from hopline.cli.errors import FAILED
from hopline.cli.identifiers import find_node, identity_text
from hopline.cli.network_command import network_command
from hopline.cli.options import JsonOption
from hopline.cli.signals import Signals
from hopline.cli.terminal import write_json, write_line, write_wrapped
from hopline.client import MessageHub
from hopline.cluster.messages.service import MESSAGE_ROUTES, REQUEST_MESSAGE_ROUTES, contract_of, service_message
from hopline.cluster.messages.service_pb2 import RequestMessageRoutes
from hopline.config import Configuration
from hopline.message import MessageIdentifier, printable
from hopline.node import Node

EPILOG = """
**Examples**

    hopline ping shop-1
    hopline ping 127.0.0.1:5101 --count 0
    hopline ping 3c89 --count 100 --interval 0.01 --json

NODE is the identity of a node, how it begins, or the address of the node. A request travels to the node itself and its
answer back, signed and encrypted like every other message; no handler of an application is called. The first request,
which also connects, is not counted. Nodes of the reference are asked for a route instead, which takes them as long.

**Exit codes**: 0 at least one answer, 1 none, 2 wrong usage.
"""

_KIND = MessageIdentifier(b"HOPLINE.PROBE")  # any kind will do

Question = Callable[[MessageHub, bytes, float], Awaitable[bool]]  # returns whether the node has answered in time


class _Pings(msgspec.Struct, frozen=True, kw_only=True):
    """How to ping."""

    node: str
    count: int
    interval: float
    timeout: float
    as_json: bool


@network_command("ping", EPILOG)
def ping_command(
    configuration: Configuration,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node: its identity, how it begins, or its address.")],
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Requests to send; 0: until Ctrl-C.")] = 5,
    interval: Annotated[float, typer.Option("--interval", min=0.001, help="Seconds between two requests.")] = 1.0,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait for an answer.")] = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Measure how long a node takes to answer, and count the answers that are missing."""
    pings = _Pings(node=node, count=count, interval=interval, timeout=timeout, as_json=as_json)
    has_answered = asyncio.run(_ping(pings, configuration))
    if not has_answered:
        raise typer.Exit(FAILED)


async def _ping(pings: _Pings, configuration: Configuration) -> bool:
    """Ping until the count is reached or Ctrl-C; return whether there was an answer."""
    signals = Signals()
    async with joined_node(configuration) as node:
        known = find_node(pings.node, await discover_nodes(node))
        name, uri = identity_text(known.identity), printable(known.uri)
        started = time.perf_counter()
        question = await _question_for(node, known.identity, pings.timeout)
        connected = time.perf_counter() - started
        raise_if_refused(node, is_answered=question is not None)
        if not pings.as_json:
            state = f"connected in {milliseconds(connected)}" if question else "no answer to the first request"
            write_wrapped(f"ping {name} at {uri}: {state}")
        times = await _send_all(node, known.identity, question or _probe, pings, signals.stop_requested)
        summary = _summary(times)
        if pings.as_json:
            write_json({"node": name, "uri": uri, **summary})
        else:
            write_wrapped(_summary_text(summary))
        return bool(summary["answered"])


async def _send_all(
    node: Node, receiver: bytes, question: Question, pings: _Pings, stop: asyncio.Event
) -> list[float | None]:
    """Send the requests, show each answer; return the round trip times, None where there was no answer."""
    times: list[float | None] = []
    while not stop.is_set() and (not pings.count or len(times) < pings.count):
        if times and await _is_set_within(stop, pings.interval):
            break
        started = time.perf_counter()
        answering = asyncio.ensure_future(question(node.hub, receiver, pings.timeout))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((answering, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not answering.done():
            answering.cancel()
            break
        seconds = time.perf_counter() - started if answering.result() else None
        times.append(seconds)
        _show(len(times), seconds, pings)
    return times


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _show(number: int, seconds: float | None, pings: _Pings) -> None:
    if pings.as_json:
        write_json({"number": number, "seconds": None if seconds is None else round(seconds, 6)})
    elif seconds is None:
        write_line(f"  {number}: no answer within {pings.timeout:g} s")
    else:
        write_line(f"  {number}: {milliseconds(seconds)}")


# -- questions ---------------------------------------------------------------------------------------------------------


async def _question_for(node: Node, receiver: bytes, timeout: float) -> Question | None:
    """Return the question that a node answers, after it has been answered once; None if it answers none."""
    for question in (_probe, _ask_for_route):
        if await question(node.hub, receiver, timeout):
            return question
    return None


async def _probe(hub: MessageHub, node: bytes, timeout: float) -> bool:
    return await probe(hub, node, _KIND, timeout) is not None


async def _ask_for_route(hub: MessageHub, node: bytes, timeout: float) -> bool:
    content = RequestMessageRoutes(message_contract=contract_of(_KIND), route_type=RequestMessageRoutes.INTERNAL)
    request = service_message(REQUEST_MESSAGE_ROUTES, content)
    return await ask(hub, node, request, MESSAGE_ROUTES, timeout) is not None


# -- the summary -------------------------------------------------------------------------------------------------------


def _summary(times: list[float | None]) -> dict[str, Any]:
    answered = [seconds for seconds in times if seconds is not None]
    lost = len(times) - len(answered)
    summary: dict[str, Any] = {
        "sent": len(times),
        "answered": len(answered),
        "lost": lost,
        "min_seconds": None,
        "mean_seconds": None,
        "max_seconds": None,
    }
    if answered:
        mean = sum(answered) / len(answered)
        summary |= {
            "min_seconds": round(min(answered), 6),
            "mean_seconds": round(mean, 6),
            "max_seconds": round(max(answered), 6),
        }
    return summary


def _summary_text(summary: dict[str, Any]) -> str:
    sent, lost = summary["sent"], summary["lost"]
    share = lost / sent if sent else 0.0
    counts = f"{sent} sent, {summary['answered']} answered, {share:.0%} lost"
    if not summary["answered"]:
        return counts
    parts = " / ".join(milliseconds(summary[f"{name}_seconds"]) for name in ("min", "mean", "max"))
    return f"{counts}; min / mean / max {parts}"
