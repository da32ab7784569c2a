"""Times of several clocks on one axis.

Each record has the time of its own node's clock. Clocks may differ by more than a whole journey takes, so on one axis
messages would arrive before they were sent. Here times are moved to the clock of the node that a journey began on, by
the estimated offsets of the table of skew. That is an estimate for looking at, with a bound; figures in tables stay as
recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hopline.explorer.questions.clocks import Offset

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Alignment:
    """How times of nodes become times of one clock, in microseconds."""

    clocks: Mapping[str, Offset]

    def us(self, moment: datetime, node: str | None) -> int:
        """Return a time of a node's clock as one of the reference; as it is where the offset is not known."""
        recorded = (moment - _EPOCH) // _MICROSECOND
        clock = self.clocks.get(node or "")
        return recorded - (clock.offset_us if clock else 0)


def recorded(moment: datetime) -> int:
    """Return a time in microseconds, as it was recorded."""
    return (moment - _EPOCH) // _MICROSECOND
