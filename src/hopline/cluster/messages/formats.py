"""Which wire formats other nodes and servers use, and how one message is written for all of them.

Theory of operation. A node or server of the reference reads one format and drops the others; Hopline reads all of them.

* Hopline nodes declare in their announcements which formats they read (see `format_declaration`). Messages for a node
  that has declared the preferred format are written in it: V6, or the format that this node is pinned to.
* Messages for any other node are written in the format that the node writes itself. The evidence for it has degrees:
  what the node sent to this one counts most, then its heartbeats, then what a rendezvous server relayed, because a
  server of the reference rewrites everything in its own format.
* A declaration counts more than any evidence: a node writes V5 until it has received something of this node. A relayed
  announcement without a declaration undoes nothing, because a server of the reference drops it. A declaration ends when
  the node is removed, is announced at another address, or sends an announcement without one directly.
* A published message reaches every node at once. It is written in the sender's own format, and once more in every other
  format that a node needs which has not declared to read the sender's. Nodes of the reference drop what they cannot
  read, but Hopline nodes would process the message several times. So the others are marked as copies in the first frame
  of the envelope, which the reference ignores, and Hopline nodes ignore copies.
* Formats are learned from originals only. Otherwise Hopline nodes would keep a format in use among themselves, each
  because of the copies of the others, long after the last node that needs it is gone.
* A node keeps writing its own format to a server that uses it, if only in copies: such a server reads it. To any other
  server it writes the format of the server's own messages. Until the server is heard, pings try one format after the
  other.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import cycle

from hopline.message import LocalError, Message, WireFormat
from hopline.wire import encode

SERVICE_FORMATS = (WireFormat.V4, WireFormat.V5_INT32, WireFormat.V5, WireFormat.V6)
"""The formats in which service messages have ever been written."""

COPY = b"copy"
_FORMATS_OF_SERVERS = (WireFormat.V6, WireFormat.V5, WireFormat.V5_INT32)  # of the reference that are still in use

# A server that reads this node's format repeats each of its own messages in it. After so many without a repetition, it
# must be another server.
_ANOTHER_SERVER = 3


def is_copy(frames: Sequence[bytes]) -> bool:
    """Return whether published frames repeat a message in another format."""
    return bool(frames) and frames[0] == COPY


def copies(message: Message, wire_formats: Iterable[WireFormat]) -> Iterator[list[bytes]]:
    """Return the frames of a message in some formats, marked as copies. Formats that cannot express it are skipped."""
    for wire_format in wire_formats:
        try:
            frames = encode(message, wire_format)
        except LocalError:
            continue
        yield [COPY, *frames[1:]]


class FormatsInUse:
    """The formats that nodes have used recently, for a server that publishes to all of them. Times are in ticks."""

    def __init__(self, own: WireFormat, memory: int) -> None:
        self._own = own
        self._memory = memory
        self._used_at: dict[WireFormat, int] = {}

    def record(self, wire_format: WireFormat | None, now: int) -> None:
        """Record the format of a node's message."""
        if wire_format is not None:
            self._used_at[wire_format] = now

    def in_use(self, now: int) -> list[WireFormat]:
        """Return the formats that were used recently, in a fixed order."""
        oldest = now - self._memory
        used_at = self._used_at.items()
        recent = {wire_format for wire_format, time in used_at if time >= oldest}
        return _in_order(recent)

    def preferred(self, now: int) -> WireFormat:
        """Return the format of the server's own messages: the configured one, unless all nodes use others."""
        in_use = self.in_use(now)
        if not in_use or self._own in in_use:
            return self._own
        return in_use[0]


class Evidence(IntEnum):
    """How a node's format became known. Weaker evidence does not overrule stronger."""

    RELAYED = 0
    HEARTBEAT = 1
    SENT = 2


class PeerFormats:
    """The formats of the nodes that one node knows, and of the server that it follows.

    Args:
        pinned: The configured format of this node; None to begin with V5 and to prefer V6.
        capacity: The number of nodes that are remembered.
    """

    def __init__(self, pinned: WireFormat | None, capacity: int) -> None:
        self.by_node: dict[bytes, WireFormat] = {}  # the format for messages to a node
        self.written_by: dict[bytes, WireFormat] = {}  # the format that a node writes itself, by the best evidence
        self._evidence: dict[bytes, Evidence] = {}
        self._declared: dict[bytes, frozenset[WireFormat]] = {}  # for nodes in `written_by`
        self._own = pinned or WireFormat.V5
        self._preferred = pinned or WireFormat.V6
        self._capacity = capacity
        self._needed: dict[WireFormat, frozenset[WireFormat]] = {}  # until a node comes, goes or changes: see below
        self.follow()

    # -- the server ----------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Forget the format of the server: another one is followed."""
        self._server: WireFormat | None = None
        self._foreign_messages = 0  # of the server itself, in other formats than this node's, in a row
        own = _service_format(self._own)
        others = [wire_format for wire_format in _FORMATS_OF_SERVERS if wire_format is not own]
        self._guesses = cycle([own, *others])

    def record_server(self, wire_format: WireFormat | None, *, is_own_message: bool, is_copied: bool) -> None:
        """Record the format of something that the server published.

        Args:
            wire_format: The format.
            is_own_message: Whether it is a message of the server itself, not one that it relays.
            is_copied: Whether it is marked as a copy.
        """
        if wire_format not in SERVICE_FORMATS:
            return
        if is_own_message and wire_format is self._own:
            self._server = wire_format
            self._foreign_messages = 0
        elif is_copied:
            return
        elif is_own_message:
            self._foreign_messages += 1
            if self._server is not self._own or self._foreign_messages >= _ANOTHER_SERVER:
                self._server = wire_format
        elif self._server is None:
            self._server = wire_format

    @property
    def server(self) -> WireFormat:
        """The format for messages to the server, and to nodes whose format is unknown."""
        return self._server or self._own

    def next_guess(self) -> WireFormat:
        """Return the format for a ping to the server: another each time, until the server's format is known."""
        return self._server or next(self._guesses)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def record(self, node: bytes, wire_format: WireFormat | None, evidence: Evidence) -> None:
        """Record the format that a node writes."""
        written_by = self.written_by
        previous_evidence = self._evidence.get(node, Evidence.RELAYED)
        if wire_format is None or evidence < previous_evidence:
            return
        previous = written_by.pop(node, None)
        is_new = previous is None
        if previous is not wire_format:
            self._needed.clear()
        if is_new and len(written_by) >= self._capacity:
            oldest = next(iter(written_by))
            self.forget(oldest)
        written_by[node] = wire_format
        self._evidence[node] = evidence
        self._choose(node)

    def declare(self, node: bytes, formats: frozenset[WireFormat]) -> None:
        """Record the formats that a node declares to read, replacing earlier ones; an empty set is no declaration.

        Nodes whose format is unknown are ignored, so that both tables are bounded by the same number of nodes.
        """
        if node not in self.written_by:
            return
        if formats == self._declared.get(node, frozenset()):
            return
        if formats:
            self._declared[node] = formats
        else:
            self._declared.pop(node, None)
        self._needed.clear()
        self._choose(node)

    def _choose(self, node: bytes) -> None:
        """Choose the format for messages to a known node."""
        preferred = self._preferred
        # The first format cannot express much of what Hopline nodes exchange, so it is never preferred.
        is_usable = preferred in SERVICE_FORMATS
        if is_usable and self._reads(node, preferred):
            self.by_node[node] = preferred
        else:
            self.by_node[node] = self.written_by[node]

    def _reads(self, node: bytes, wire_format: WireFormat) -> bool:
        """Return whether a node has declared to read a format."""
        declared = self._declared.get(node, ())
        return wire_format in declared

    def forget(self, node: bytes) -> None:
        """Remove a node."""
        self._needed.clear()
        self.by_node.pop(node, None)
        self.written_by.pop(node, None)
        self._evidence.pop(node, None)
        self._declared.pop(node, None)

    def of(self, node: bytes) -> WireFormat:
        """Return the format for messages to a node."""
        return self.by_node.get(node) or self.server

    def written_for_all(self, message: Message) -> list[list[bytes]]:
        """Return the frames of a published message: in this node's format, and copies in the others that are needed."""
        own = _service_format(self.server)
        original = encode(message, own)
        return [original, *copies(message, _in_order(self._needed_beside(own)))]

    def _needed_beside(self, own: WireFormat) -> frozenset[WireFormat]:
        """Return the formats of the nodes that have not declared to read a format; kept, as nodes may be many."""
        if own not in self._needed:
            written = {wire_format for node, wire_format in self.written_by.items() if not self._reads(node, own)}
            self._needed[own] = frozenset(written - {own})
        return self._needed[own]


def _service_format(wire_format: WireFormat) -> WireFormat:
    """Return a format in which service messages can be written: the given one, or V5."""
    return wire_format if wire_format in SERVICE_FORMATS else WireFormat.V5


def _in_order(wire_formats: Container[WireFormat]) -> list[WireFormat]:
    return [wire_format for wire_format in SERVICE_FORMATS if wire_format in wire_formats]
