"""Waiting until every message that was sent to a stopping node has arrived.

Theory of operation. A node that stops withdraws its messages and waits until the withdrawal comes back from the
rendezvous server. That proves that the server has relayed it, not that every peer has processed it: on a busy machine a
peer goes on sending for a while, and what it sends to a node that is gone is lost. So the node asks a question after
the withdrawal. The server relays both in order, and a peer answers on the connection that carries its messages. When
the answer has arrived, so has everything that the peer sent before it processed the withdrawal, and it sends no more.
No clock is involved.

Any question would do. The request for all routes is understood and answered by every node of every generation.
"""

from __future__ import annotations

from collections.abc import Iterable


class DrainBarrier:
    """The nodes that were asked and have not answered."""

    def __init__(self) -> None:
        self._pending: set[bytes] = set()

    def begin(self, nodes: Iterable[bytes]) -> None:
        """Wait for an answer from each of these nodes."""
        self._pending = set(nodes)

    def passed(self, node: bytes) -> None:
        """Record that a node has answered, or never will because it is gone."""
        self._pending.discard(node)

    @property
    def is_complete(self) -> bool:
        """Whether no answer is pending."""
        return not self._pending
