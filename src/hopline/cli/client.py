"""A node for a moment: it joins the network, asks, and leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from hopline.capture.events import Level
from hopline.client import MessageHub
from hopline.config import Configuration
from hopline.message import AnswerTimeoutError, HoplineError, Message, MessageIdentifier, to_message
from hopline.node import Node
from hopline.node.introspection import NodeCapture, NodeStats, Probe, Probed, RequestCapture, RequestStats
from hopline.node.report import NodeReport
from hopline.routing import KnownNode, Settled

QUIET = 0.3  # seconds without news of other nodes, after which everybody is taken to have answered
ALONE = 1.5  # the same, as long as there seems to be no other node at all
LONGEST = 3.0  # seconds to wait for that
_SOONER = 0.8
ANSWER_TIME = 2.0  # seconds that a node may take to answer a question about itself


class NotJoinedError(HoplineError):
    """No rendezvous server answered."""


class RefusedError(HoplineError):
    """Other nodes are there, and their keys are not ours."""


@asynccontextmanager
async def joined_node(
    configuration: Configuration,
    on_outcome: Callable[[Settled], None] | None = None,
    timeout: float = float("inf"),
) -> AsyncIterator[Node]:
    """Join the network for a moment. Whoever waits for so long is to hear before that nobody handles a message."""
    network, settings = configuration.client_network(), configuration.settings
    settings = msgspec.structs.replace(settings, parking_time=min(settings.parking_time, _SOONER * timeout))
    logging.getLogger("hopline").setLevel(logging.ERROR)  # what matters is said in one line
    async with Node(network=network, settings=settings, on_outcome=on_outcome) as node:
        if not node.is_joined:
            servers = ", ".join(str(server) for server in network.servers)
            raise NotJoinedError(
                f"no rendezvous server answers at {servers}; start one with `hopline rendezvous`, or name another with "
                "--rendezvous"
            )
        yield node


def require_keys(node: Node, *, is_answered: bool) -> None:
    """Raise `RefusedError` if nobody answered, and what other nodes announced was refused because of its keys."""
    if node.refusals and not is_answered:
        texts = list(dict.fromkeys(refusal.text for refusal in node.refusals))
        more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
        raise RefusedError(f"{texts[0]}{more}; name a configuration that has the keys with --config")


async def everybody(node: Node) -> list[KnownNode]:
    """Wait until no more news of other nodes come, and return those that are known."""
    loop = asyncio.get_running_loop()
    deadline, heard, since = loop.time() + LONGEST, -1, loop.time()
    while loop.time() < deadline:
        network = node.report().network
        now_heard = 0 if network is None else network.heard
        if now_heard != heard:
            heard, since = now_heard, loop.time()
        elif loop.time() - since >= (QUIET if node.known_nodes else ALONE):
            break
        await asyncio.sleep(0.02)
    require_keys(node, is_answered=bool(node.known_nodes))
    return sorted(node.known_nodes, key=lambda known: known.identity)


async def stats_of(hub: MessageHub, node: bytes) -> NodeReport | None:
    """Ask a node how it is; None if it does not say."""
    question = to_message(RequestStats()).with_receiver_node(node)
    try:
        return (await hub.send(question, callback=NodeStats, timeout=ANSWER_TIME)).report
    except HoplineError:
        return None


async def capture_of(hub: MessageHub, node: bytes, level: Level | None = None) -> NodeCapture | None:
    """Ask a node how its capture is, and to set it to a level if one is given; None if it does not say."""
    question = to_message(RequestCapture(level)).with_receiver_node(node)
    try:
        return await hub.send(question, callback=NodeCapture, timeout=ANSWER_TIME)
    except HoplineError:
        return None


async def probe(hub: MessageHub, node: bytes, kind: MessageIdentifier) -> Probed | None:
    """Ask a node who would get a message there; None if it does not say, as nodes of the reference."""
    question = to_message(Probe(kind)).with_receiver_node(node)
    try:
        return await hub.send(question, callback=Probed, timeout=ANSWER_TIME)
    except HoplineError:
        return None


async def ask(hub: MessageHub, node: bytes, question: Message, answer: MessageIdentifier) -> Message | None:
    """Ask a node one of the protocol's own questions; None if it does not answer."""
    try:
        return await hub.send(question.with_receiver_node(node), callback=answer, timeout=ANSWER_TIME)
    except (HoplineError, AnswerTimeoutError):
        return None
