"""From whom a sign is awaited that everything it sent here before has come.

Theory of operation. A node that stops withdraws its messages, and hears the withdrawal come back from the rendezvous
server. That proves that the server has published it, not that every peer has read it: on a busy machine a peer goes on
sending for a while, and what it sends to a node that is gone is lost. So the node asks a question after the withdrawal.
The server relays both in order, and a peer answers on the connection that carries its messages. When its answer has
come, so has whatever it sent before it read the withdrawal, and it sends no more. How long that takes is measured by
nobody's clock.

Any question would do. The one for all routes is understood, and answered, by every node of every generation.
"""

from __future__ import annotations

from collections.abc import Iterable


class RollCall:
    """The nodes that were asked and have not answered."""

    def __init__(self) -> None:
        self._awaited: set[bytes] = set()

    def begin(self, nodes: Iterable[bytes]) -> None:
        """Await an answer from each of these."""
        self._awaited = set(nodes)

    def answered(self, node: bytes) -> None:
        """Note an answer, or that none will come: the node is gone."""
        self._awaited.discard(node)

    @property
    def is_complete(self) -> bool:
        """Return whether nobody's answer is awaited."""
        return not self._awaited
