"""Links that were opened to answer somebody, and nothing else.

Theory of operation. Whoever asks for routes, or announces itself, names the address that the answer goes to. So anybody
can make a node open links, to addresses where nobody answers too, and each costs file descriptors. Links that carry
messages are no concern here: those are as many as there are nodes to send to. Of links that only answer, only so many
are open at once; one to a node that gave no sign of life is closed when it has been idle for a while. Where there are
too many, links to such nodes go first. Each domain has its own: a flood of questions in an unsigned domain takes
nothing from the others.

A link to a node that is alive stays open although it is idle: its end tells at once that the node is gone, and the next
answer need not connect again. What was handed to the transport before a link is closed still leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from hopline.transport import PeerLink

_IDLE_TIME = 5.0  # seconds after the last answer


class AnswerLinks:
    """Keeps account of the links that only answer, and closes those that are one too many."""

    def __init__(self, capacity: int, close: Callable[[bytes], None], is_alive: Callable[[bytes], bool]) -> None:
        self._capacity = capacity
        self._close = close
        self._is_alive = is_alive
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
        """Close the links whose last answer left a while ago, but for those to nodes that are alive.

        Where many nodes start at once it may take longer than that to connect. A link to nobody is given up by the
        transport.
        """
        for links in self._answering.values():
            idle = [node for node, (link, since) in links.items() if now - since > _IDLE_TIME and not link.waiting]
            for node in idle:
                if not self._is_alive(node):
                    del links[node]
                    self._close(node)

    def _close_one(self, links: dict[bytes, tuple[PeerLink, float]]) -> None:
        """Close the oldest link whose answer has left, best one to a node that is not alive; or else the oldest.

        The address of the last is silent.
        """
        has_left = [node for node, (link, _) in links.items() if not (link.waiting or link.is_silent)]
        oldest = has_left[0] if has_left else next(iter(links))
        node = next((node for node in has_left if not self._is_alive(node)), oldest)
        del links[node]
        self._close(node)

    def _discard(self, node: bytes) -> None:
        for links in self._answering.values():
            links.pop(node, None)
