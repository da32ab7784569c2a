"""Links that were opened to answer somebody, and nothing else.

Theory of operation. Whoever asks for routes, or announces itself, names the address that the answer goes to. So anybody
can make a node open links, to addresses where nobody answers too, and each costs file descriptors. Links that carry
messages are no concern here: those are as many as there are nodes to send to. A link that only answers is closed when
it has been idle for a while, and only so many are open at once. Each domain has its own: a flood of questions in an
unsigned domain takes nothing from the others.
"""

from __future__ import annotations

from collections.abc import Callable

from hopline.node.transport import PeerLink

_IDLE_TIME = 5.0  # seconds after the last answer


class AnswerLinks:
    """Keeps account of the links that only answer, and closes those that are one too many."""

    def __init__(self, capacity: int, close: Callable[[bytes], None]) -> None:
        self._capacity = capacity
        self._close = close
        self._carrying: set[bytes] = set()  # nodes whose links carry messages
        self._answering: dict[str, dict[bytes, tuple[PeerLink, float]]] = {}  # by domain, the oldest first

    def answered(self, node: bytes, domain: str, link: PeerLink, now: float) -> None:
        """Note that an answer in a domain goes to a node, and close another link if there are too many."""
        if node in self._carrying:
            return
        self._discard(node)
        links = self._answering.setdefault(domain, {})
        if len(links) >= self._capacity:
            self._close_one(links)
        links[node] = link, now

    def carries(self, node: bytes) -> None:
        """Note that the link to a node carries messages from now on."""
        self._discard(node)
        self._carrying.add(node)

    def closed(self, node: bytes) -> None:
        """Note that the link to a node is closed."""
        self._discard(node)
        self._carrying.discard(node)

    def close_idle(self, now: float) -> None:
        """Close the links whose last answer was a while ago."""
        for links in self._answering.values():
            for node in [node for node, (_, since) in links.items() if now - since > _IDLE_TIME]:
                del links[node]
                self._close(node)

    def _close_one(self, links: dict[bytes, tuple[PeerLink, float]]) -> None:
        """Close the oldest link whose answer has left, or else the oldest: its address is silent."""
        oldest = next(iter(links))
        node = next((node for node, (link, _) in links.items() if not (link.waiting or link.is_silent)), oldest)
        del links[node]
        self._close(node)

    def _discard(self, node: bytes) -> None:
        for links in self._answering.values():
            links.pop(node, None)
