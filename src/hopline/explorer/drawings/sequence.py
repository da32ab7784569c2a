"""The sequence diagram of a journey: a lifeline for each actor and hub, an arrow for each message, in their order.

An arrow leads from the actor or hub that submitted a message to the one it was delivered to. Where captures have only
what was on the wire, lifelines are nodes and arrows are hops. A message that did not arrive ends at a cross.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hopline.capture.events import ENDINGS
from hopline.explorer.drawings.clock_alignment import Alignment
from hopline.explorer.questions.journey import Journey
from hopline.pipeline.tables.findings import duration, short

Row = Mapping[str, Any]
Place = tuple[str, str]  # node, and the actor or hub on it; empty for the node itself
MessageKey = tuple[str, int]  # flow and message

COLUMN = 148
LEFT = 70
TOP = 62
LINE = 30
MOST_PLACES = 24
MOST_ARROWS = 120
_ENDINGS = frozenset(ENDINGS)


@dataclass(frozen=True, slots=True)
class Lifeline:
    """An actor, a hub or a node."""

    title: str
    node: str
    x: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message, from one lifeline to another, perhaps the same."""

    identity: str
    flow_id: str
    took: str
    hops: int
    problem: str
    from_x: int
    to_x: int
    y: int

    @property
    def is_own(self) -> bool:
        """Return whether it leads back to where it came from."""
        return self.from_x == self.to_x

    @property
    def direction(self) -> int:
        """Return 1 for an arrow to the right, -1 for one to the left."""
        return 1 if self.to_x >= self.from_x else -1


@dataclass(frozen=True, slots=True)
class SequenceDiagram:
    """A sequence diagram as it is drawn."""

    lifelines: list[Lifeline]
    arrows: list[Arrow]
    width: int
    height: int
    hidden: int  # messages that are not drawn


@dataclass(frozen=True, slots=True)
class _Move:
    source: Place
    target: Place
    identity: str
    flow_id: str
    start: int
    end: int | None
    hops: int
    problem: str


def sequence(journey: Journey, alignment: Alignment) -> SequenceDiagram:
    """Return the sequence diagram of a journey, in the order of sending by one clock."""
    reader = _MoveReader(alignment)
    moves = reader.moves(journey)
    moves.sort(key=lambda move: (move.start, move.end or move.start))
    drawn = _as_many_as_fit(moves)
    columns: dict[Place, int] = {}
    for move in drawn:
        for place in (move.source, move.target):
            columns.setdefault(place, LEFT + COLUMN * len(columns))
    lifelines = []
    for place, x in columns.items():
        node, _ = place
        title = reader.names.get(place, "node")
        lifelines.append(Lifeline(title, node, x))
    arrows = [_arrow(move, columns, line) for line, move in enumerate(drawn, start=1)]
    return SequenceDiagram(
        lifelines=lifelines,
        arrows=arrows,
        width=_width(len(columns), arrows),
        height=TOP + LINE * (len(arrows) + 1),
        hidden=len(moves) - len(drawn),
    )


def _width(columns: int, arrows: Sequence[Arrow]) -> int:
    width = LEFT * 2 + COLUMN * max(columns - 1, 0)
    label_ends = [arrow.from_x + LEFT + COLUMN for arrow in arrows if arrow.is_own]
    if max(label_ends, default=0) > width:
        width += COLUMN  # the label of an arrow from the last lifeline to itself stands beside it
    return width


def _as_many_as_fit(moves: Sequence[_Move]) -> list[_Move]:
    """Return the first moves, up to the limits of arrows and of lifelines."""
    places: set[Place] = set()
    for count, move in enumerate(moves[:MOST_ARROWS]):
        places |= {move.source, move.target}
        if len(places) > MOST_PLACES:
            return list(moves[:count])
    return list(moves[:MOST_ARROWS])


def _arrow(move: _Move, columns: Mapping[Place, int], line: int) -> Arrow:
    return Arrow(
        identity=move.identity,
        flow_id=move.flow_id,
        took="" if move.end is None else duration(move.end - move.start),
        hops=move.hops,
        problem=move.problem,
        from_x=columns[move.source],
        to_x=columns[move.target],
        y=TOP + LINE * line,
    )


def _message_key(row: Row) -> MessageKey:
    return row["flow_id"], row["message_id"]


class _MoveReader:
    """Reads what moved from where to where out of a journey's records and hops, and what places are called."""

    def __init__(self, alignment: Alignment) -> None:
        self.names: dict[Place, str] = {}
        self._alignment = alignment

    def moves(self, journey: Journey) -> list[_Move]:
        """Return the moves of all messages, message by message."""
        records: dict[MessageKey, list[Row]] = {}
        for record in journey.records:
            if record["ts"] is not None and record["message_id"] is not None:
                records.setdefault(_message_key(record), []).append(record)
        hops: dict[MessageKey, list[Row]] = {}
        for hop in journey.hops:
            hops.setdefault(_message_key(hop), []).append(hop)
        moves: list[_Move] = []
        for key, records_of_message in records.items():
            records_of_message.sort(key=self._time_of)
            moves += self._moves_of_message(records_of_message, hops.get(key, []))
        return moves

    def _moves_of_message(self, records: Sequence[Row], hops: Sequence[Row]) -> list[_Move]:
        submissions = [record for record in records if record["event"] == "submitted"]
        deliveries = [record for record in records if record["event"] == "delivered"]
        endings = [record for record in records if record["event"] in _ENDINGS]
        if not submissions and not deliveries:  # only the wire was recorded
            return [self._move_of_hop(hop) for hop in hops]
        moves = []
        remaining = list(reversed(submissions))
        last = submissions[-1] if submissions else None
        for delivery in deliveries:
            submission = remaining.pop() if remaining else last
            moves.append(self._move_to(delivery, submission))
        moves += [self._move_to(ending, last, problem=ending["event"]) for ending in endings]
        if not deliveries and not endings:
            lost_hops = [hop for hop in hops if hop["lost"] and hop["sent_ts"] is not None]
            moves += [self._move_of_hop(hop, submissions) for hop in lost_hops]
        if submissions and not moves:
            moves.append(self._move_to_nowhere(submissions[0]))
        return moves

    def _move_to(self, arrival: Row, submission: Row | None, problem: str = "") -> _Move:
        """Return the move that ends with a record: from its submission, or else from the node that it came from."""
        end = self._time_of(arrival)
        if submission is None:
            source = (arrival["peer"] or arrival["node"] or "", "")
            start = end
        else:
            source = self._place_of(submission)
            start = self._time_of(submission)
        return _Move(
            source=source,
            target=self._place_of(arrival),
            identity=arrival["identity"] or "",
            flow_id=arrival["flow_id"],
            start=start,
            end=end,
            hops=arrival["hops"] or 0,
            problem=problem,
        )

    def _move_to_nowhere(self, submission: Row) -> _Move:
        place = self._place_of(submission)
        return _Move(
            source=place,
            target=place,
            identity=submission["identity"] or "",
            flow_id=submission["flow_id"],
            start=self._time_of(submission),
            end=None,
            hops=0,
            problem="not seen again",
        )

    def _move_of_hop(self, hop: Row, submissions: Sequence[Row] = ()) -> _Move:
        sender = hop["from_node"]
        receiver = hop["to_node"]
        source = self._place_of(submissions[0]) if submissions else (sender or "", "")
        received = None
        if hop["received_ts"] is not None:
            received = self._alignment.us(hop["received_ts"], receiver)
        start = received
        if hop["sent_ts"] is not None:
            start = self._alignment.us(hop["sent_ts"], sender)
        problem = "rejected" if hop["rejected"] else ""
        return _Move(
            source=source,
            target=(receiver or "", ""),
            identity=hop["identity"] or "",
            flow_id=hop["flow_id"],
            start=start or 0,
            end=received,
            hops=hop["hops"] or 0,
            problem="lost" if hop["lost"] else problem,
        )

    def _time_of(self, record: Row) -> int:
        """Return the time of a record in microseconds of the reference clock."""
        return self._alignment.us(record["ts"], record["node"])

    def _place_of(self, record: Row) -> Place:
        """Return the place of a record, and note what it is called."""
        receiver = record["local_receiver"] or ""
        place = (record["node"] or "", receiver)
        if receiver:
            is_hub = receiver.startswith("\0")
            default = "hub" if is_hub else short(receiver)
            self.names.setdefault(place, default)
            if record["receiver_name"]:
                self.names[place] = record["receiver_name"]
        return place
