"""Which wire formats others speak, and how one message is said to all of them.

Theory of operation. A node or server of the reference reads one format and drops the others; Hopline reads all of them.

* Hopline nodes declare in their announcements which formats they read. What goes to a node that has declared the
  preferred format is written in it: V6, or the format that this node is pinned to. See `declaration`.
* What goes to any other node is written in the format that the node writes itself. The evidence has degrees: what the
  node sent to this one counts most, then its heartbeats, then what a rendezvous server relayed, for a server of the
  reference writes everything in its own format, whoever said it.
* A declaration counts more than any evidence: before its sender has heard of this node, it writes V5. What a server
  relayed without one undoes nothing, for a server of the reference leaves out what it does not know. A declaration
  ends with what is known of its node, with an announcement from another address, or with one that the node itself sent
  here without a declaration.
* What is published reaches everybody at once. It is written in the speaker's own format, and again in every other
  format that somebody needs, which is nobody who has declared to read the speaker's. Nodes of the reference drop what
  they cannot read; Hopline nodes would take the same message several times. So the others are marked as copies, in the
  first frame of the envelope, which means nothing to a node of the reference, and Hopline ignores them.
* Formats are learned from originals only. Otherwise Hopline nodes would keep a format in use among themselves, each
  because of the copies of the others, when the last node that needs it is long gone.
* A node goes on writing its own format to a server that is heard in it, if only in copies: such a server reads it. To
  any other server it writes the format of what only servers say. While nothing was heard at all, it asks in one format
  after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import cycle

from hopline.message import LocalError, Message, WireFormat
from hopline.wire import encode

SERVICE_FORMATS = (WireFormat.V4, WireFormat.V5_INT32, WireFormat.V5, WireFormat.V6)
"""The formats that service messages ever travelled in."""

COPY = b"copy"
_SPOKEN_TODAY = (WireFormat.V6, WireFormat.V5, WireFormat.V5_INT32)  # by servers of the reference that are still around

# A server that reads this node's format repeats each of its words in it. After so many without, it is another server.
_ANOTHER_SERVER = 3


def is_copy(frames: Sequence[bytes]) -> bool:
    """Return whether published frames repeat in another format what was said before."""
    return bool(frames) and frames[0] == COPY


def copies(message: Message, wire_formats: Iterable[WireFormat]) -> Iterator[list[bytes]]:
    """Return the frames of a message in some formats, marked as copies. A format that cannot say it is left out."""
    for wire_format in wire_formats:
        try:
            frames = encode(message, wire_format)
        except LocalError:
            continue
        yield [COPY, *frames[1:]]


class FormatsInUse:
    """The formats that nodes have spoken lately, for a server that speaks to all of them. Times are in ticks."""

    def __init__(self, own: WireFormat, memory: int) -> None:
        self._own = own
        self._memory = memory
        self._heard: dict[WireFormat, int] = {}

    def heard(self, wire_format: WireFormat | None, now: int) -> None:
        """Note the format of what a node said."""
        if wire_format is not None:
            self._heard[wire_format] = now

    def in_use(self, now: int) -> list[WireFormat]:
        """Return the formats that were heard lately, in a fixed order."""
        return [one for one in SERVICE_FORMATS if one in self._heard and now - self._heard[one] <= self._memory]

    def preferred(self, now: int) -> WireFormat:
        """Return the format of what the server says itself: its own, unless all nodes speak others."""
        in_use = self.in_use(now)
        return self._own if not in_use or self._own in in_use else in_use[0]


class Evidence(IntEnum):
    """How a node's format became known; what counts more is not overruled by what counts less."""

    RELAYED = 0
    HEARTBEAT = 1
    SENT = 2


class PeerFormats:
    """The formats of the nodes that one node knows, up to a bound, and of the server that it follows.

    Args:
        pinned: The format of a node that was set to one; None to begin with V5, and to prefer V6.
        capacity: How many nodes are remembered.
    """

    def __init__(self, pinned: WireFormat | None, capacity: int) -> None:
        self.by_node: dict[bytes, WireFormat] = {}  # the format for what is sent to a node
        self.written_by: dict[bytes, WireFormat] = {}  # the format that a node writes itself, by the best evidence
        self._evidence: dict[bytes, Evidence] = {}
        self._declared: dict[bytes, frozenset[WireFormat]] = {}  # what nodes read, of those in `written_by`
        self._own = pinned or WireFormat.V5
        self._preferred = pinned or WireFormat.V6
        self._capacity = capacity
        self.follow()

    # -- the server ----------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Begin anew: another server is followed."""
        self._server: WireFormat | None = None
        self._foreign_words = 0  # of the server, in other formats than this node's, in a row
        own = self._own if self._own in SERVICE_FORMATS else WireFormat.V5
        self._next_guess = cycle([own, *(one for one in _SPOKEN_TODAY if one is not own)])

    def hear_server(self, wire_format: WireFormat | None, *, says_it_itself: bool, is_copied: bool) -> None:
        """Note the format of something that the server published: its own word, or somebody else's that it relayed."""
        if wire_format not in SERVICE_FORMATS:
            return
        if says_it_itself and wire_format is self._own:
            self._server = wire_format
            self._foreign_words = 0
        elif is_copied:
            return
        elif says_it_itself:
            self._foreign_words += 1
            if self._server is not self._own or self._foreign_words >= _ANOTHER_SERVER:
                self._server = wire_format
        elif self._server is None:
            self._server = wire_format

    @property
    def server(self) -> WireFormat:
        """The format for what is said to the server, and to nodes that nothing is known of."""
        return self._server or self._own

    def next_guess(self) -> WireFormat:
        """Return the format for asking whether the server is there: another each time, as long as it is not known."""
        return self._server or next(self._next_guess)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def learn(self, node: bytes, wire_format: WireFormat | None, evidence: Evidence) -> None:
        """Note in which format a node writes."""
        written_by = self.written_by
        if wire_format is None or evidence < self._evidence.get(node, Evidence.RELAYED):
            return
        if written_by.pop(node, None) is None and len(written_by) >= self._capacity:
            self.forget(next(iter(written_by)))  # who spoke up long ago may not be there any more
        written_by[node] = wire_format
        self._evidence[node] = evidence
        self._choose(node)

    def declare(self, node: bytes, formats: frozenset[WireFormat]) -> None:
        """Note which formats a node has declared to read, in place of those before; none is no declaration.

        Nodes whose format is not known are left out: this way both are bounded by the same number of nodes.
        """
        if node not in self.written_by:
            return
        if formats:
            self._declared[node] = formats
        else:
            self._declared.pop(node, None)
        self._choose(node)

    def _choose(self, node: bytes) -> None:
        """Decide on the format for what is sent to a node that was heard."""
        # The first format has no place for much of what Hopline nodes say to each other: nobody is asked to read it.
        is_declared = self._preferred in SERVICE_FORMATS and self._preferred in self._declared.get(node, ())
        self.by_node[node] = self._preferred if is_declared else self.written_by[node]

    def forget(self, node: bytes) -> None:
        """Forget a node."""
        self.by_node.pop(node, None)
        self.written_by.pop(node, None)
        self._evidence.pop(node, None)
        self._declared.pop(node, None)

    def of(self, node: bytes) -> WireFormat:
        """Return the format for what is sent to a node."""
        return self.by_node.get(node) or self.server

    def written_for_all(self, message: Message) -> list[list[bytes]]:
        """Return the frames of a service message for all who listen: in this node's format, and copies in theirs."""
        own = self.server if self.server in SERVICE_FORMATS else WireFormat.V5
        needed: Collection[WireFormat] = {
            wire_format for node, wire_format in self.written_by.items() if own not in self._declared.get(node, ())
        }
        others = (one for one in SERVICE_FORMATS if one in needed and one is not own)
        return [encode(message, own), *copies(message, others)]
