"""Limits the links that were opened only to answer another node.

Theory of operation. A request for routes, or an announcement, names the address that the answer goes to. So any peer
can make a node open links, even to addresses where nothing answers, and each costs file descriptors. Links that carry
messages of applications are not limited here: there are as many as there are nodes to send to. A link that only answers
is closed when it has been idle for a while: nodes that do not talk to each other keep no connection, however many of
them have joined. Their number is bounded as well. The bound is per domain: a flood of requests in an unsigned domain
takes nothing from the others.

Few of them connect at the same time: where many nodes ask at once, all would be slow to connect, and on a busy machine
too slow. A link that has been connecting for a while does not count, so that addresses where nothing answers keep
nobody waiting for long.

What was given to the transport before a link is closed still leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hopline.transport import PeerLink

_IDLE_TIME = 5.0  # seconds after the last answer
_CONNECTING = 16  # links of a domain that may be connecting when another one is opened
_CONNECT_TIME = 5.0  # seconds in which a link counts as connecting


class _AnswerLink(NamedTuple):
    link: PeerLink
    answered_at: float


_LinksByNode = dict[bytes, _AnswerLink]


class AnswerLinks:
    """Tracks the links that only answer, and closes the superfluous ones.

    Args:
        capacity: Number of such links in one domain.
        close: Closes the link to a node.
    """

    def __init__(self, capacity: int, close: Callable[[bytes], None]) -> None:
        self._capacity = capacity
        self._close = close
        self._carrying: set[bytes] = set()  # nodes whose links carry messages
        self._answering: dict[str, _LinksByNode] = {}  # by domain, the oldest first

    def answered(self, node: bytes, domain: str, link: PeerLink, now: float) -> None:
        """Note that an answer goes to a node, and close another link of the domain if there are too many."""
        if node in self._carrying:
            return
        self._discard(node)
        links = self._answering.setdefault(domain, {})
        if len(links) >= self._capacity:
            self._close_one(links)
        links[node] = _AnswerLink(link, answered_at=now)

    def may_answer(self, node: bytes, domain: str, now: float) -> bool:
        """Return whether an answer may go to a node now: over a link that exists, or because few are connecting."""
        links = self._answering.get(domain, {})
        if node in self._carrying or node in links:
            return True
        connecting = 0
        for link, answered_at in reversed(links.values()):
            if now - answered_at > _CONNECT_TIME:
                break  # the others are older
            connecting += link.is_silent
        return connecting < min(_CONNECTING, self._capacity)

    def carries(self, node: bytes) -> None:
        """Note that the link to a node carries messages from now on."""
        self._discard(node)
        self._carrying.add(node)

    def is_carrying(self, node: bytes) -> bool:
        """Return whether the link to a node carries messages."""
        return node in self._carrying

    def closed(self, node: bytes) -> None:
        """Note that the link to a node is closed."""
        self._discard(node)
        self._carrying.discard(node)

    def close_idle(self, now: float) -> None:
        """Close the links whose last answer left a while ago.

        A link whose answer still waits stays open: where many nodes start at once, connecting may take longer. The
        transport gives up links to addresses where nothing answers.
        """
        for links in self._answering.values():
            idle = self._idle(links, now)
            for node in idle:
                del links[node]
                self._close(node)

    def _idle(self, links: _LinksByNode, now: float) -> list[bytes]:
        idle = []
        for node, (link, answered_at) in links.items():
            if now - answered_at <= _IDLE_TIME:
                break  # the others answered later
            if not link.waiting:
                idle.append(node)
        return idle

    def _close_one(self, links: _LinksByNode) -> None:
        node = self._most_dispensable(links)
        del links[node]
        self._close(node)

    def _most_dispensable(self, links: _LinksByNode) -> bytes:
        """Return the node of the oldest link whose answer has left; if there is none, of the oldest link."""
        for node, (link, _) in links.items():
            if not (link.waiting or link.is_silent):
                return node
        return next(iter(links))

    def _discard(self, node: bytes) -> None:
        for links in self._answering.values():
            links.pop(node, None)
