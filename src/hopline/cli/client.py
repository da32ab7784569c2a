"""A short-lived node for commands that ask a running network: it joins, sends its requests, and leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec

from hopline.capture.events import Level
from hopline.client import MessageHub
from hopline.config import Configuration
from hopline.errors import NotJoinedError
from hopline.message import ArgumentError, HoplineError, Message, MessageIdentifier, to_message
from hopline.node import Node
from hopline.node.introspection import (
    NodeCapture,
    NodePeers,
    NodeStats,
    Probe,
    Probed,
    RequestCapture,
    RequestPeers,
    RequestStats,
    RequestTail,
    Tail,
)
from hopline.node.report import NodeReport, PeerReport
from hopline.observers.tail import Fetched, TailFilter
from hopline.routing import KnownNode, MessageOutcome
from hopline.routing.suggestions import close_kinds, question
from hopline.transport import resolve

QUIET_TIME = 0.3  # seconds without a route announcement, after which all nodes are taken to have announced theirs
ALONE_TIME = 1.5  # the same, while no other node is known
DISCOVERY_TIME = 3.0  # seconds to wait for announcements at most
REQUEST_TIMEOUT = 2.0  # seconds for a node to answer a question about itself
_POLL_INTERVAL = 0.02
_DISCOVERY_SHARE = 0.8  # of a command's timeout: "nobody handles it" is reported before the timeout is


class RefusedError(HoplineError):
    """There are other nodes, but their messages are not signed with our keys."""


@asynccontextmanager
async def joined_node(
    configuration: Configuration,
    on_outcome: Callable[[MessageOutcome], None] | None = None,
    timeout: float = float("inf"),
) -> AsyncIterator[Node]:
    """Join the network for the duration of the block.

    Args:
        configuration: Names the rendezvous servers and the keys.
        on_outcome: Called with the outcome of every message.
        timeout: The time that the command waits for an answer. An unroutable message is reported before that.

    Raises:
        NotJoinedError: If no rendezvous server answers.
    """
    network = configuration.client_network()
    settings = configuration.settings
    discovery_timeout = min(settings.discovery_timeout, _DISCOVERY_SHARE * timeout)
    settings = msgspec.structs.replace(settings, discovery_timeout=discovery_timeout)
    logging.getLogger("hopline").setLevel(logging.ERROR)  # commands report problems in one line of their own
    async with Node(network=network, settings=settings, on_outcome=on_outcome) as node:
        if not node.is_joined:
            servers = [str(server) for server in network.servers]
            unknown = [server for server in servers if not await asyncio.to_thread(_has_known_host, server)]
            problem = f"no rendezvous server answers at {', '.join(servers)}"
            if unknown:
                problem += f"; the host name of {', '.join(unknown)} cannot be looked up"
            raise NotJoinedError(f"{problem}; start one with `hopline rendezvous`, or name another with --rendezvous")
        yield node


def _has_known_host(server: str) -> bool:
    """Return whether the host name in the address of a server can be looked up."""
    try:
        resolve(server)
    except ArgumentError:
        return False
    return True


def raise_if_refused(node: Node, *, is_answered: bool) -> None:
    """Raise `RefusedError` if there was no answer, and announcements of other nodes failed the signature check."""
    if is_answered or not node.refusals:
        return
    reasons = list(dict.fromkeys(refusal.text for refusal in node.refusals))
    others = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    raise RefusedError(f"{reasons[0]}{others}; name a configuration that has the keys with --config")


async def discover_nodes(node: Node) -> list[KnownNode]:
    """Wait until no more route announcements arrive, and return the nodes that are known then.

    Raises:
        RefusedError: None is known, and announcements were refused.
    """
    await announcements(node)
    raise_if_refused(node, is_answered=bool(node.known_nodes))
    return sorted(node.known_nodes, key=lambda known: known.identity)


async def announcements(node: Node) -> None:
    """Wait until no more route announcements arrive."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DISCOVERY_TIME
    heard, last_heard_at = -1, loop.time()
    while loop.time() < deadline:
        network = node.report().network
        now_heard = 0 if network is None else network.heard
        quiet_time = QUIET_TIME if node.known_nodes else ALONE_TIME
        if now_heard != heard:
            heard, last_heard_at = now_heard, loop.time()
        elif loop.time() - last_heard_at >= quiet_time:
            break
        await asyncio.sleep(_POLL_INTERVAL)


def did_you_mean(kind: MessageIdentifier, nodes: Iterable[KnownNode]) -> str:
    """Return the question that suggests kinds which nodes handle; empty if a node handles this one, or none similar."""
    known = [handled for node in nodes for kinds in node.actors.values() for handled in kinds]
    return question(close_kinds(kind, known))


async def request_stats(hub: MessageHub, node: bytes) -> NodeReport | None:
    """Ask a node for its report; return None if it does not answer."""
    request = to_message(RequestStats()).with_receiver_node(node)
    try:
        answer = await hub.send(request, callback=NodeStats, timeout=REQUEST_TIMEOUT)
    except HoplineError:
        return None
    return answer.report


async def request_peers(hub: MessageHub, node: bytes) -> tuple[PeerReport, ...] | None:
    """Ask a node which others it knows; return None if it does not answer."""
    request = to_message(RequestPeers()).with_receiver_node(node)
    try:
        answer = await hub.send(request, callback=NodePeers, timeout=REQUEST_TIMEOUT)
    except HoplineError:
        return None
    return answer.peers


async def fetch_tail(
    hub: MessageHub, node: bytes, reader: bytes, wanted: TailFilter | None, timeout: float = REQUEST_TIMEOUT
) -> Fetched | None:
    """Ask a node for its latest messages; without a filter, end the tail. Return None if it does not answer."""
    request = to_message(RequestTail(reader, wanted)).with_receiver_node(node)
    try:
        answer = await hub.send(request, callback=Tail, timeout=timeout)
    except HoplineError:
        return None
    return answer.fetched


async def request_capture(hub: MessageHub, node: bytes, level: Level | None = None) -> NodeCapture | None:
    """Ask a node for the state of its capture, and set it to `level` first; return None if it does not answer."""
    request = to_message(RequestCapture(level)).with_receiver_node(node)
    try:
        return await hub.send(request, callback=NodeCapture, timeout=REQUEST_TIMEOUT)
    except HoplineError:
        return None


async def probe(
    hub: MessageHub, node: bytes, kind: MessageIdentifier, timeout: float = REQUEST_TIMEOUT
) -> Probed | None:
    """Ask a node which actors would receive a message; return None if it does not answer, as the reference does not."""
    request = to_message(Probe(kind)).with_receiver_node(node)
    try:
        return await hub.send(request, callback=Probed, timeout=timeout)
    except HoplineError:
        return None


async def ask(
    hub: MessageHub, node: bytes, request: Message, answer: MessageIdentifier, timeout: float = REQUEST_TIMEOUT
) -> Message | None:
    """Send a service message of the protocol to a node; return its answer, or None if there is none in time."""
    try:
        return await hub.send(request.with_receiver_node(node), callback=answer, timeout=timeout)
    except HoplineError:
        return None
