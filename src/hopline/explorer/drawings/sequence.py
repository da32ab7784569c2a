"""The sequence diagram of a journey: a lifeline for each actor and hub, an arrow for each message, in their order.

An arrow leads from whoever submitted a message to whoever it was delivered to. Where captures have only what was on the
wire, lifelines are nodes, and arrows are hops. A message that did not arrive ends at a cross.
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
    names: dict[Place, str] = {}
    moves = _moves(journey, alignment, names)
    moves.sort(key=lambda move: (move.start, move.end or move.start))
    places: dict[Place, int] = {}
    drawn: list[_Move] = []
    for move in moves:
        new = {move.source, move.target} - places.keys()
        if len(drawn) >= MOST_ARROWS or len(places) + len(new) > MOST_PLACES:
            break
        for place in (move.source, move.target):
            places.setdefault(place, len(places))
        drawn.append(move)
    xs = {place: LEFT + COLUMN * column for place, column in places.items()}
    lifelines = [Lifeline(names.get(place, "node"), place[0], x) for place, x in xs.items()]
    arrows = [
        Arrow(
            identity=move.identity,
            flow_id=move.flow_id,
            took="" if move.end is None else duration(move.end - move.start),
            hops=move.hops,
            problem=move.problem,
            from_x=xs[move.source],
            to_x=xs[move.target],
            y=TOP + LINE * (line + 1),
        )
        for line, move in enumerate(drawn)
    ]
    width = LEFT * 2 + COLUMN * max(len(places) - 1, 0)
    if any(arrow.is_own and arrow.from_x + LEFT + COLUMN > width for arrow in arrows):
        width += COLUMN  # what the last one sends to itself is written beside it
    return SequenceDiagram(lifelines, arrows, width, TOP + LINE * (len(arrows) + 1), len(moves) - len(drawn))


def _moves(journey: Journey, alignment: Alignment, names: dict[Place, str]) -> list[_Move]:
    """Return what moved from where to where, message by message."""
    by_message: dict[tuple[str, int], list[Row]] = {}
    for record in journey.records:
        if record["ts"] is not None and record["message_id"] is not None:
            by_message.setdefault((record["flow_id"], record["message_id"]), []).append(record)
    hops: dict[tuple[str, int], list[Row]] = {}
    for hop in journey.hops:
        hops.setdefault((hop["flow_id"], hop["message_id"]), []).append(hop)
    moves: list[_Move] = []
    for key, records in by_message.items():
        in_order = sorted(records, key=lambda record: alignment.us(record["ts"], record["node"]))
        moves += _of_message(in_order, hops.get(key, []), alignment, names)
    return moves


def _of_message(
    records: Sequence[Row], hops: Sequence[Row], alignment: Alignment, names: dict[Place, str]
) -> list[_Move]:
    sources = [record for record in records if record["event"] == "submitted"]
    targets = [record for record in records if record["event"] == "delivered"]
    endings = [record for record in records if record["event"] in _ENDINGS]
    lost = [hop for hop in hops if hop["lost"] and hop["sent_ts"] is not None]
    if not sources and not targets:
        return [_of_hop(hop, alignment, names) for hop in hops]
    moves = []
    for nth, target in enumerate(targets):
        end = alignment.us(target["ts"], target["node"])
        source = sources[min(nth, len(sources) - 1)] if sources else None
        moves.append(_between(source, target, end, "", alignment, names))
    for ending in endings:
        end = alignment.us(ending["ts"], ending["node"])
        source = sources[-1] if sources else None
        moves.append(_between(source, ending, end, ending["event"], alignment, names))
    if not targets and not endings:
        moves += [_of_hop(hop, alignment, names, sources) for hop in lost]
    if sources and not moves:
        source = sources[0]
        place = _place(source, names)
        start = alignment.us(source["ts"], source["node"])
        moves.append(_Move(place, place, source["identity"] or "", source["flow_id"], start, None, 0, "not seen again"))
    return moves


def _between(
    source: Row | None, target: Row, end: int, problem: str, alignment: Alignment, names: dict[Place, str]
) -> _Move:
    to = _place(target, names)
    start = end if source is None else alignment.us(source["ts"], source["node"])
    came_from = (target["peer"] or target["node"] or "", "") if source is None else _place(source, names)
    return _Move(came_from, to, target["identity"] or "", target["flow_id"], start, end, target["hops"] or 0, problem)


def _of_hop(hop: Row, alignment: Alignment, names: dict[Place, str], sources: Sequence[Row] = ()) -> _Move:
    source = _place(sources[0], names) if sources else (hop["from_node"] or "", "")
    moment, node = (
        (hop["sent_ts"], hop["from_node"]) if hop["sent_ts"] is not None else (hop["received_ts"], hop["to_node"])
    )
    start = alignment.us(moment, node) if moment is not None else 0
    end = alignment.us(hop["received_ts"], hop["to_node"]) if hop["received_ts"] is not None else None
    problem = "lost" if hop["lost"] else "rejected" if hop["rejected"] else ""
    target = (hop["to_node"] or "", "")
    return _Move(source, target, hop["identity"] or "", hop["flow_id"], start, end, hop["hops"] or 0, problem)


def _place(record: Row, names: dict[Place, str]) -> Place:
    receiver = record["local_receiver"] or ""
    place = (record["node"] or "", receiver)
    if receiver:
        is_hub = receiver.startswith("\0")
        names.setdefault(place, record["receiver_name"] or ("hub" if is_hub else short(receiver)))
    return place
