"""The tail of a node: recent messages, kept for those who look at the running network.

Theory of operation. Whoever looks asks the node again and again for what has happened since it asked last
(`hopline.node.introspection`). So nothing is ever sent that was not asked for, and a reader sets the pace:

* A tail begins with the first question and ends when its reader says so, or has not asked for `LEASE` seconds.
* While nobody looks, `NodeTail` listens to no event, so that a message costs nothing more.
* What a reader has not fetched is bounded in number a second (`rate`), in bytes (`PENDING_BYTES`), and in readers
  (`MOST_TAILS`). What does not fit is left out and counted; the messages themselves are not delayed.
* What is kept of a question is bounded too: the name of its reader (`LONGEST_READER`) and its filter. A question beyond
  a bound is answered with its problem, changes nothing, and is counted among the messages that the node refused.

A lease that has passed is noticed at the next event, not by a timer: no event, no cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from hopline.capture.events import Event
from hopline.message import ExceptionReport, Message, MessageIdentifier, Version
from hopline.observers.observer import Listener, NodeObserver, Observers
from hopline.routing import Delivery, Label, Outcome
from hopline.transport import Frames

LEASE = 5.0  # seconds without a question after which a tail ends
MOST_TAILS = 8  # readers at a time
PENDING_BYTES = 1 << 20  # bytes that wait for one reader
HIGHEST_RATE = 1_000  # messages a second
LARGEST_BODY = 1 << 16  # bytes of one body that are shown
MOST_KINDS = 32
LONGEST_READER = 255  # bytes of a reader's name, as of a node's identity
LONGEST_NAME = 1_024  # bytes of a flow, and of each part of a kind, in a filter
REFUSED_QUESTION = "tail"  # the reason under which refused questions are counted

_RECORD_SIZE = 200  # bytes of a record without what others have chosen, about
_LONGEST_REASON = 1_000  # characters
_DETAILS = frozenset({Event.SUBMITTED, Event.SENT, Event.RECEIVED})

LabelOf: TypeAlias = Callable[[bytes, MessageIdentifier], Label]  # of a receiver, for a kind of message


class KindPattern(msgspec.Struct, frozen=True):
    """Kinds of messages: of a name, and of one version and partition if they are given."""

    identity: bytes
    version: Version | None = None
    partition: bytes | None = None

    def matches(self, kind: MessageIdentifier) -> bool:
        """Return whether a kind is one of these."""
        is_version = self.version is None or self.version == kind.version
        is_partition = self.partition is None or self.partition == kind.partition
        return self.identity == kind.identity and is_version and is_partition


class TailFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader wants to see."""

    kinds: tuple[KindPattern, ...] = ()  # none for every kind
    flow: bytes = b""  # a correlation id; empty for every flow
    has_every_event: bool = False  # also what is submitted, sent, received, and handled without an error
    body_bytes: int = 0  # the beginning of each body
    rate: int = 100  # messages a second

    def matches(self, kind: MessageIdentifier, flow: bytes) -> bool:
        """Return whether a message is to be shown."""
        if self.flow and self.flow != flow:
            return False
        return not self.kinds or any(pattern.matches(kind) for pattern in self.kinds)

    def problem(self) -> str:
        """Return what is wrong with this filter, or an empty text."""
        if len(self.kinds) > MOST_KINDS:
            return f"expected at most {MOST_KINDS} kinds, found {len(self.kinds)}"
        if not 1 <= self.rate <= HIGHEST_RATE:
            return f"expected a rate of 1 to {HIGHEST_RATE} messages a second, found {self.rate}"
        if not 0 <= self.body_bytes <= LARGEST_BODY:
            return f"expected 0 to {LARGEST_BODY} bytes of each body, found {self.body_bytes}"
        longest = max(map(len, (self.flow, *_names(self.kinds))))
        if longest > LONGEST_NAME:
            return f"expected a flow and kinds of at most {LONGEST_NAME} bytes, found {longest}"
        return ""


class TailRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one message on the node."""

    at: float  # seconds since 1970, by the clock of the node
    event: str  # an `Event`
    kind: MessageIdentifier
    flow: bytes
    size: int  # bytes of all bodies
    body: bytes = b""  # its beginning
    peer: bytes = b""  # the node that it came from, or went to
    receiver: bytes = b""
    actor: str = ""  # the class of the receiver
    handler: str = ""
    seconds: float | None = None  # that it waited until it was delivered, or that its handler took
    reason: str = ""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What has happened since the last question."""

    records: tuple[TailRecord, ...] = ()
    left_out: int = 0  # messages that were too many or too large
    problem: str = ""  # why there is nothing


class _Reader:
    """What waits for one reader."""

    __slots__ = ("_bytes", "_left_out", "_records", "_second", "_taken", "expires_at", "filter")

    def __init__(self, wanted: TailFilter) -> None:
        self.filter = wanted
        self.expires_at = 0.0
        self._records: list[TailRecord] = []
        self._bytes = 0
        self._left_out = 0
        self._second = 0
        self._taken = 0  # in this second

    def has_room(self, now: float) -> bool:
        """Count a message, and return whether there is room for it."""
        second = int(now)
        if second != self._second:
            self._second, self._taken = second, 0
        if self._taken >= self.filter.rate or self._bytes >= PENDING_BYTES:
            self._left_out += 1
            return False
        self._taken += 1
        return True

    def add(self, record: TailRecord) -> None:
        self._records.append(record)
        kind = record.kind
        chosen = (record.body, kind.identity, kind.partition, record.flow, record.peer, record.receiver, record.reason)
        self._bytes += _RECORD_SIZE + sum(map(len, chosen))

    def fetch(self) -> Fetched:
        fetched = Fetched(records=tuple(self._records), left_out=self._left_out)
        self._records.clear()
        self._bytes = self._left_out = 0
        return fetched


class NodeTail(NodeObserver):
    """Keeps what happens on a node for those who look.

    Args:
        observers: The node's observers, which are refreshed when the first reader comes and when the last one is gone.
        label_of: Returns the display names of a local actor and of its handler.
        is_hidden: Returns whether no reader is to see messages of an identity: the questions of the readers themselves.
        clock: The node's monotonic clock.
        wall_clock: Returns seconds since 1970.
        refused: The messages that the node refused, by reason; refused questions are added.
    """

    def __init__(
        self,
        observers: Observers,
        label_of: LabelOf,
        is_hidden: Callable[[bytes], bool],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        refused: Counter[str],
    ) -> None:
        self._observers = observers
        self._label_of = label_of
        self._is_hidden = is_hidden
        self._clock = clock
        self._wall_clock = wall_clock
        self._refused = refused
        self._readers: dict[bytes, _Reader] = {}

    # -- readers -------------------------------------------------------------------------------------------------------

    def fetch(self, reader: bytes, wanted: TailFilter) -> Fetched:
        """Return what has happened since a reader asked last; the first question begins its tail."""
        now = self._clock()
        self._drop_expired(now)
        known = self._readers.get(reader)
        if known is None or known.filter != wanted:
            problem = wanted.problem() or self._reader_problem(reader)
            if problem:
                self._refused[REFUSED_QUESTION] += 1
                return Fetched(problem=problem)
            known = self._readers[reader] = _Reader(wanted)
            self._observers.refresh()
        known.expires_at = now + LEASE
        return known.fetch()

    def _reader_problem(self, reader: bytes) -> str:
        """Return why a reader cannot look at this node, or an empty text."""
        if len(reader) > LONGEST_READER:
            return f"expected a reader's name of at most {LONGEST_READER} bytes, found {len(reader)}"
        if reader not in self._readers and len(self._readers) >= MOST_TAILS:
            return f"{MOST_TAILS} others look at this node already; try again later"
        return ""

    def has(self, reader: bytes) -> bool:
        """Return whether a reader looks at this node."""
        return reader in self._readers

    def end(self, reader: bytes) -> Fetched:
        """End the tail of a reader. Return what it has not fetched."""
        known = self._readers.pop(reader, None)
        if known is None:
            return Fetched()
        self._observers.refresh()
        return known.fetch()

    def _drop_expired(self, now: float) -> None:
        expired = [reader for reader, known in self._readers.items() if known.expires_at < now]
        for reader in expired:
            self.end(reader)

    def listeners(self) -> dict[str, Listener]:
        """Return the functions to call, by event, as the readers demand: none without readers."""
        if not self._readers:
            return {}
        if any(reader.filter.has_every_event for reader in self._readers.values()):
            return super().listeners()
        return {"delivered": self.delivered, "handling": self.handling, "ended": self.ended}

    # -- events --------------------------------------------------------------------------------------------------------

    def submitted(self, delivery: Delivery) -> None:
        """Keep a message that this node has taken."""
        self._add(Event.SUBMITTED, delivery.message)

    def sent(self, delivery: Delivery, message: Message, peer: bytes, when: float) -> None:  # noqa: ARG002 - the event's signature
        """Keep a message that left for another node."""
        self._add(Event.SENT, message, peer=peer)

    def received(self, frames: Frames | None, message: Message, when: float) -> None:  # noqa: ARG002 - the event's signature
        """Keep a message that came from another node, and is not verified yet."""
        self._add(Event.RECEIVED, message, peer=_sender(message))

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:
        """Keep a message that a receiver starts on."""
        message = delivery.message
        waited = self._clock() - delivery.since
        self._add(Event.DELIVERED, message, receiver, peer=_sender(message), seconds=waited)
        return delivery

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> _Handling:  # noqa: ARG002 - the label names the handler
        """Follow a handler to its end."""
        return _Handling(self, delivery.message, receiver, self._clock())

    def handled(self, message: Message, receiver: bytes, since: float, error: BaseException | None) -> None:
        """Keep the end of a handler."""
        reason = ""
        if error is not None:
            report = ExceptionReport.of(error)
            reason = f"{report.type_name}: {report.text}"
        took = self._clock() - since
        self._add(Event.HANDLED, message, receiver, seconds=took, reason=reason)

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str, frames: Frames | None) -> None:  # noqa: ARG002 - the event's signature
        """Keep a message that reached no receiver."""
        message = delivery.message
        self._add(Event(outcome), message, peer=_sender(message), reason=reason)

    def _add(
        self,
        event: Event,
        message: Message,
        receiver: bytes = b"",
        *,
        peer: bytes = b"",
        seconds: float | None = None,
        reason: str = "",
    ) -> None:
        if self._is_hidden(message.identity):
            return
        now = self._clock()
        self._drop_expired(now)
        kind = message.identifier
        is_detail = event in _DETAILS or (event is Event.HANDLED and not reason)
        for reader in self._readers.values():
            wanted = reader.filter
            if is_detail and not wanted.has_every_event:
                continue
            if not wanted.matches(kind, message.correlation_id) or not reader.has_room(now):
                continue
            actor, handler = self._label_of(receiver, kind) if receiver else (None, None)
            record = TailRecord(
                at=self._wall_clock(),
                event=event,
                kind=kind,
                flow=message.correlation_id,
                size=sum(map(len, message.bodies)),
                body=message.body[: wanted.body_bytes],
                peer=peer,
                receiver=receiver,
                actor=actor or "",
                handler=handler or "",
                seconds=seconds,
                reason=reason[:_LONGEST_REASON],
            )
            reader.add(record)


class _Handling:
    __slots__ = ("_message", "_receiver", "_since", "_tail")

    def __init__(self, tail: NodeTail, message: Message, receiver: bytes, since: float) -> None:
        self._tail = tail
        self._message = message
        self._receiver = receiver
        self._since = since

    def detach(self) -> None:
        """Do nothing: nothing was made current."""

    def end(self, error: BaseException | None) -> None:
        self._tail.handled(self._message, self._receiver, self._since, error)


def _names(kinds: Iterable[KindPattern]) -> Iterator[bytes]:
    """Return every text of variable length in patterns."""
    for kind in kinds:
        yield kind.identity
        yield kind.partition or b""
        if isinstance(kind.version, bytes):
            yield kind.version


def _sender(message: Message) -> bytes:
    """Return the node that a message came from; empty if it began here."""
    return message.routing[-1].identity if message.routing else b""
