"""Evidence of a run in which everything was as it should be, for tests that change one thing."""

from __future__ import annotations

from hopline.capture.events import Level
from hopline.node.stats import Stats
from hopline.observers.recorder import CaptureReport
from hopline.query.comparison import TableComparison
from hopline.routing import Outcome
from tests.soak.counters import Counters, LoadCounts, Phase
from tests.soak.losses import Cause, Losses
from tests.soak.measurements import Growth
from tests.soak.measurements import Level as MeasuredLevel
from tests.soak.processes import End, Life
from tests.soak.records import Crossings, LifeRecords, Numbers
from tests.soak.verdict import Evidence

BEGAN, KILLED, ENDED = 1_000.0, 1_030.0, 1_060.0
EVENTS = {"submitted": 60, "received": 40, "delivered": 40, "sent": 60, "handled": 40}


def counters(time: float, phase: Phase, waiting: int = 0) -> Counters:
    """Return a line that balances."""
    outcomes = dict.fromkeys(Outcome, 0) | {Outcome.DELIVERED: 40, Outcome.SENT: 60 - waiting}
    return Counters(
        time=time,
        phase=phase,
        stats=Stats(
            submitted=60,
            received=40,
            copied=0,
            returned=0,
            outcomes=outcomes,
            waiting=waiting,
            handled=40,
            handler_errors=0,
            unexpected=0,
            promised=0,
        ),
        load=LoadCounts(asked=20, answered=20, noted=20),
        questions=20,
        notes=20,
        capture=CaptureReport(
            level=Level.FULL, directory="captures", records=200, dropped=0, segments=1, segment_bytes=1_000
        ),
        unacknowledged=2,
        peers=2,
        is_joined=True,
    )


def good() -> Evidence:
    """Return evidence of a run with one kill that meets all criteria."""
    lives = [
        Life("rendezvous", 1, 1, BEGAN, ENDED, End.STOPPED, 0),
        Life("node-1", 1, 2, BEGAN, ENDED, End.STOPPED, 0),
        Life("node-2", 1, 3, BEGAN, KILLED, End.KILLED, -9),
        Life("node-2", 2, 4, KILLED, ENDED, End.STOPPED, 0),
    ]
    return Evidence(
        rate=3.0,
        seconds=ENDED - BEGAN,
        level=Level.FULL,
        lives=lives,
        counters={
            "node-1.1": [counters(BEGAN + 1, Phase.LOADED, 3), counters(ENDED, Phase.STOPPED)],
            "node-2.1": [counters(BEGAN + 1, Phase.LOADED, 2), counters(KILLED - 1, Phase.LOADED, 1)],
            "node-2.2": [counters(KILLED + 1, Phase.LOADED), counters(ENDED, Phase.STOPPED)],
        },
        faults=[(KILLED, KILLED + 1)],
        is_drained=True,
        growths=[Growth("node-1", 1, 200.0, MeasuredLevel(100e6, 103e6), MeasuredLevel(20, 21))],
        records=610,
        life_records=[
            LifeRecords("node-1", 1, 200, ENDED - 1, 0, 0, EVENTS),
            LifeRecords("node-2", 1, 210, KILLED - 0.4, 5, 0, EVENTS),
            LifeRecords("node-2", 2, 200, ENDED - 1, 0, 0, EVENTS),
        ],
        numbers=[Numbers("node-1", 200, 0, 0, 0), Numbers("node-2", 410, 0, 0, 0)],
        crossings=Crossings(100, 98, 95, [], []),
        losses=Losses(
            by_cause={Cause.RECEIVER_ENDED: 3, Cause.SENDER_ENDED: 0, Cause.CONNECTION_BROKE: 2},
            broken_by_life={("node-1", 1): 2},
            unrecorded=3,
            unexplained_unrecorded=[],
            oldest_unrecorded=0.5,
        ),
        batch_rows=610,
        stream_rows=610,
        comparisons=[TableComparison("flows", 20, 20, 0, 0)],
        lateness={"p50": 12.0, "p95": 20.0},
    )
