"""Which nodes of one domain are remembered when more are announced than there are slots.

Theory of operation. An announcement proves little: any member of a domain can announce nodes that do not exist, and
where the domain is unsigned, so can any process that reaches the network. A flood of such nodes must not drive out real
ones. So a node without a slot replaces another by what this one has seen of that other:

* A node *in contact* is never replaced: this node sends to it, and therefore listens to its heartbeats and removes it
  when it is silent (see `health`). A heartbeat alone is no contact, because it is not signed.
* A *settled* node has announced itself again in a later round of requests for all routes, as every real node does. A
  burst of announcements does not make settled nodes. They are not replaced as long as there are new ones.
* Every other node is *new*. Of these, the one that was announced first is replaced, so that a real node that comes late
  gets a slot, and keeps it if it settles, or if this node sends to it, before as many others are announced as there are
  slots for new nodes.

A flood may go on for several rounds and repeat its nodes. Therefore settled nodes have at most `_SETTLED_SHARE` of the
slots, and the others are always left for new nodes: those that settled first stay, and a node that this one needs gets
in when it answers the query for its route. Then this node sends to it.
"""

from __future__ import annotations

from enum import Enum, auto

_SETTLED_SHARE = 0.75  # of the slots of nodes without contact


class Standing(Enum):
    """What this node has seen of another."""

    NEW = auto()
    SETTLED = auto()
    IN_CONTACT = auto()


class NodeSlots:
    """The slots of one domain.

    Args:
        nodes: Their number.
        without_contact: How many of them may be taken by nodes that are not in contact.
    """

    def __init__(self, nodes: int, without_contact: int) -> None:
        self._nodes = nodes
        self._without_contact = min(nodes, without_contact)
        self._most_settled = int(_SETTLED_SHARE * self._without_contact)
        # Each in the order in which its nodes got there.
        self._by_standing: dict[Standing, dict[bytes, None]] = {standing: {} for standing in Standing}

    def _count(self, *standings: Standing) -> int:
        return sum(len(self._by_standing[standing]) for standing in standings)

    @property
    def has_free(self) -> bool:
        """Whether there is a slot for one more node."""
        without_contact = self._count(Standing.NEW, Standing.SETTLED)
        return without_contact < self._without_contact and self._count(*Standing) < self._nodes

    def replaceable(self) -> bytes | None:
        """Return the node that has to leave its slot to another one; None if all are in contact."""
        first_new = next(iter(self._by_standing[Standing.NEW]), None)
        if first_new is not None:
            return first_new
        return next(reversed(self._by_standing[Standing.SETTLED]), None)

    def add(self, node: bytes, standing: Standing = Standing.NEW) -> None:
        """Give a node a slot."""
        self._by_standing[standing][node] = None

    def remove(self, node: bytes) -> Standing:
        """Free the slot of a node; return what its standing was."""
        for standing, nodes in self._by_standing.items():
            if node in nodes:
                del nodes[node]
                return standing
        raise KeyError(node)

    def settle(self, node: bytes) -> None:
        """Record that a node has announced itself again in a later round."""
        is_new = node in self._by_standing[Standing.NEW]
        if is_new and self._count(Standing.SETTLED) < self._most_settled:
            self.remove(node)
            self.add(node, Standing.SETTLED)

    def record_contact(self, node: bytes) -> None:
        """Record that this node sends to another one."""
        if node not in self._by_standing[Standing.IN_CONTACT]:
            self.remove(node)
            self.add(node, Standing.IN_CONTACT)
