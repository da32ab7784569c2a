"""What a batch leaves to the next one, but for rows: small facts, in a document that anybody can read without Spark."""

from __future__ import annotations

import msgspec

STREAM = "_stream"
STATES = f"{STREAM}/state"
DOCUMENT = "state.json"


def batch_name(number: int) -> str:
    """Return the name of a batch in paths."""
    return f"{number:09}"


class NodeState(msgspec.Struct, frozen=True):
    """What is known of a node."""

    heard_s: float  # when a segment with records of it came last, or it was first mentioned; seconds since 1970
    first_us: int  # the earliest time at which a record tells of it
    last_us: int | None = None  # the time of its last message; none: others mention it


class Totals(msgspec.Struct, frozen=True):
    """What the stream has done since it was first started."""

    segments: int = 0
    skipped: int = 0  # segments that cannot be read, or were deleted before they were
    records: int = 0
    messages: int = 0
    rejects: int = 0
    late: int = 0
    flows: int = 0

    def plus(self, **more: int) -> Totals:
        """Return totals with some of them increased."""
        raised = {name: getattr(self, name) + number for name, number in more.items()}
        return msgspec.structs.replace(self, **raised)


class State(msgspec.Struct, frozen=True):
    """What a batch leaves to the next one, but for rows."""

    batch: int = -1
    first_batch_s: float | None = None  # when the stream was first started
    written_s: float = 0.0
    horizon_us: int | None = None  # windows that end up to then are final
    pending: int = 0  # rows that wait
    pending_units: int = 0
    nodes: dict[str, NodeState] = {}
    silent: tuple[str, ...] = ()
    days: tuple[str, ...] = ()  # with rows, not settled yet
    settling: tuple[str, ...] = ()  # those of them that are over
    closed: dict[str, float] = {}  # batches that closed units, and when
    totals: Totals = Totals()

    @property
    def last_us(self) -> int | None:
        """Return the time of the last message of all nodes."""
        return max((node.last_us for node in self.nodes.values() if node.last_us is not None), default=None)

    def settled(self, day: str) -> State:
        """Return the state without a day."""
        days, settling = (tuple(one for one in some if one != day) for some in (self.days, self.settling))
        return msgspec.structs.replace(self, days=days, settling=settling)

    @property
    def has_open_windows(self) -> bool:
        """Return whether some windows with rows are not final."""
        if self.last_us is None:
            return False
        return self.horizon_us is None or self.last_us >= self.horizon_us
