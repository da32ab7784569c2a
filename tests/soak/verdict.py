"""The verdict on a run: one criterion a function, each from plain values, so that it can be tested without a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hopline.capture.events import ENDINGS, Event, Level
from hopline.query.comparison import TableComparison
from hopline.routing import Outcome
from tests.soak.counters import Counters, Phase
from tests.soak.losses import UNWRITTEN, Cause, Losses
from tests.soak.measurements import Growth
from tests.soak.processes import End, Life
from tests.soak.records import Crossings, LifeRecords, Numbers

MEMORY_GROWTH = 0.05  # a share
DESCRIPTOR_GROWTH = 1.0  # descriptors: one more or less is a connection that is being made, or a file being written
LEAST_RATE = 0.9  # of the rate that was asked for; nodes that are paused or restarted send nothing
SETTLED = 12.0  # seconds after a fault in which messages may fail: two heartbeats, and the restart of a node

Interval = tuple[float, float]
"""A beginning and an end, in seconds since 1970."""


class Criterion(msgspec.Struct, frozen=True):
    """One line of the verdict."""

    text: str
    is_met: bool | None  # None if it was not judged
    details: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        if self.is_met is None:
            return "not judged"
        return "met" if self.is_met else "NOT MET"


@dataclass(slots=True)
class Evidence:
    """What is known of a run. What is None could not be found out."""

    rate: float
    seconds: float
    level: Level
    lives: Sequence[Life]
    counters: Mapping[str, Sequence[Counters]]  # by the name of the life
    faults: Sequence[Interval] = ()
    problems: Sequence[str] = ()
    children_left: int = 0
    is_drained: bool = False
    growths: Sequence[Growth] = ()
    records: int | None = None  # in the segments
    rejects: int = 0
    life_records: Sequence[LifeRecords] | None = None
    numbers: Sequence[Numbers] = ()
    crossings: Crossings | None = None
    losses: Losses | None = None
    delivered_twice: int = 0
    batch_rows: int | None = None  # of messages and rejects together
    stream_rows: int | None = None
    comparisons: Sequence[TableComparison] | None = None
    late: int = 0
    lateness: Mapping[str, float] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Life]:
        """The lives of nodes."""
        return [life for life in self.lives if life.name in self.counters]


def judge(evidence: Evidence) -> list[Criterion]:
    """Return the verdict on a run, a line for each criterion."""
    criteria = (
        processes_lived,
        load_was_kept_up,
        counters_balance,
        nothing_is_left,
        failures_are_near_faults,
        records_balance,
        records_agree_with_counters,
        no_record_is_missing,
        kills_cost_little,
        losses_have_causes,
        nothing_was_delivered_twice,
        batch_has_all_records,
        stream_has_all_records,
        stream_equals_batch,
        memory_is_level,
        descriptors_are_flat,
    )
    return [criterion(evidence) for criterion in criteria]


# -- the network -------------------------------------------------------------------------------------------------------


def processes_lived(evidence: Evidence) -> Criterion:
    """No process ended by itself, had to be forced to stop, or left children behind."""
    ends = [life for life in evidence.lives if life.end in (End.BY_ITSELF, End.FORCED)]
    details = [f"{life.name}: ended {life.end}, code {life.code}" for life in ends]
    details += evidence.problems
    if evidence.children_left:
        details.append(f"{evidence.children_left} processes outlived those that had started them")
    return Criterion("no process ended by itself or could not be stopped", not details, tuple(details))


def load_was_kept_up(evidence: Evidence) -> Criterion:
    """The nodes sent nearly as many messages as they were to send."""
    wanted = evidence.rate * evidence.seconds
    submitted = messages_of_load(evidence)
    share = submitted / wanted if wanted else 1.0
    text = f"the load was kept up: {submitted:,} messages, {share:.1%} of the rate, at least {LEAST_RATE:.0%}"
    return Criterion(text, share >= LEAST_RATE)


def messages_of_load(evidence: Evidence) -> int:
    """Return how many messages of the load were submitted: questions, answers and notes.

    Of a life that was killed the last line counts; what it sent in its last second is missing.
    """
    total = 0
    for lines in evidence.counters.values():
        if lines:
            last = lines[-1]
            total += last.load.asked + last.load.noted + last.questions
    return total


def counters_balance(evidence: Evidence) -> Criterion:
    """In every line, what came in equals what ended and what waits, and no node has counted a question twice."""
    checked = 0
    details = []
    for name, lines in evidence.counters.items():
        for line in lines:
            checked += 1
            if not line.stats.is_balanced:
                details.append(f"{name} at {line.time:.0f}: {unbalanced(line)}")
            if line.load.pending < 0:
                details.append(f"{name} at {line.time:.0f}: {-line.load.pending} questions have two outcomes")
    return Criterion(f"counters balance in each of {checked:,} lines", not details, tuple(details))


def unbalanced(line: Counters) -> str:
    """Return both sides of the counters of a line."""
    stats = line.stats
    came_in = stats.submitted + stats.received + stats.copied
    return f"{came_in:,} came in, {sum(stats.outcomes.values()):,} ended, {stats.waiting:,} wait"


def nothing_is_left(evidence: Evidence) -> Criterion:
    """When the load was over, everything came to an end, and the lives that were stopped left nothing."""
    if not evidence.is_drained:
        return Criterion(
            "nothing waits at the end", None if not evidence.counters else False, ("it was not waited for",)
        )
    details = []
    for life in evidence.nodes:
        last = _last_line(evidence, life)
        if life.end is not End.STOPPED or last is None:
            continue
        if last.phase is not Phase.STOPPED:
            details.append(f"{life.name} was stopped and has not written its last counters")
        if last.stats.waiting or last.stats.promised or last.load.pending:
            details.append(f"{life.name}: {last.stats.waiting} messages and {last.load.pending} questions wait")
    return Criterion("nothing waits at the end: no message, no question", not details, tuple(details))


def failures_are_near_faults(evidence: Evidence) -> Criterion:
    """Each question or note that failed did so in the time of a fault, or shortly after one."""
    total = 0
    away: Counter[str] = Counter()
    for lines in evidence.counters.values():
        for line in lines:
            for failure in line.failures:
                total += 1
                if not any(_overlap((failure.began, failure.ended), fault) for fault in evidence.faults):
                    away[failure.reason] += 1
    details = tuple(f"{count:,} x {reason}" for reason, count in away.most_common())
    text = f"{total:,} messages failed, all of them within {SETTLED:g} s after a fault"
    return Criterion(text, not away, details)


def _overlap(failure: Interval, fault: Interval) -> bool:
    return failure[0] <= fault[1] + SETTLED and failure[1] >= fault[0]


def _last_line(evidence: Evidence, life: Life) -> Counters | None:
    lines = evidence.counters.get(life.name)
    return lines[-1] if lines else None


# -- the records -------------------------------------------------------------------------------------------------------


def records_balance(evidence: Evidence) -> Criterion:
    """In each life, no message went out more often than it came in; in lives that were stopped, just as often."""
    text = "records balance in each life of a node"
    if evidence.life_records is None or evidence.level is not Level.FULL:
        return Criterion(text, None, ("it takes captures of level full",))
    ends = {life.name: life.end for life in evidence.lives}
    details = []
    waited = 0
    for life in evidence.life_records:
        name = f"{life.role}.{life.number}"
        if life.from_nowhere:
            details.append(f"{name}: {life.from_nowhere:,} messages went out that had not come in")
        if ends.get(name) is End.STOPPED and life.waiting:
            details.append(f"{name}: {life.waiting:,} messages came in and never went out")
        if ends.get(name) is not End.STOPPED:
            waited += life.waiting
    return Criterion(f"{text}; {waited:,} messages waited where one was killed", not details, tuple(details))


def records_agree_with_counters(evidence: Evidence) -> Criterion:
    """The records of a stopped life are as many as it has counted, by event; those of a killed one at least as many."""
    text = "records agree with the counters of each life"
    if evidence.life_records is None:
        return Criterion(text, None)
    by_name = {f"{life.role}.{life.number}": life for life in evidence.life_records}
    details = []
    for life in evidence.nodes:
        lines = evidence.counters[life.name]
        written = max((line.capture.records for line in lines if line.capture is not None), default=0)
        recorded = by_name.get(life.name)
        records = 0 if recorded is None else recorded.records
        if records < written:
            details.append(f"{life.name}: {written:,} records were written, {records:,} are there")
        if recorded is not None and lines and lines[-1].phase is Phase.STOPPED:
            details += _differences(life.name, lines[-1], recorded, evidence.level)
    return Criterion(text, not details, tuple(details))


def _differences(name: str, counters: Counters, recorded: LifeRecords, level: Level) -> list[str]:
    stats = counters.stats
    counted: dict[str, int] = {
        Event.RECEIVED: stats.received,
        **{event: stats.outcomes[Outcome(event)] for event in (Event.SENT, *ENDINGS)},
    }
    if level is Level.FULL:
        counted[Event.SUBMITTED] = stats.submitted
        counted[Event.DELIVERED] = stats.outcomes[Outcome.DELIVERED]
        counted[Event.HANDLED] = stats.handled
    return [
        f"{name}: {count:,} counted as {event}, {recorded.events.get(event, 0):,} recorded"
        for event, count in counted.items()
        if count != recorded.events.get(event, 0)
    ]


def no_record_is_missing(evidence: Evidence) -> Criterion:
    """The numbers of each node's records are those from the first to the last one, each once."""
    text = "each record has a number of its own, and none is missing"
    if evidence.life_records is None:
        return Criterion(text, None)
    details = []
    for node in evidence.numbers:
        if node.repeated:
            details.append(f"{node.node}: {node.repeated:,} records have the number of another one")
        if node.missing != node.dropped:
            details.append(f"{node.node}: {node.missing:,} numbers are missing, {node.dropped:,} counted as dropped")
        if node.dropped:
            details.append(f"{node.node}: {node.dropped:,} records were dropped")
    return Criterion(text, not details, tuple(details))


def kills_cost_little(evidence: Evidence) -> Criterion:
    """A kill costs the records of the last moment only."""
    if evidence.life_records is None or evidence.losses is None:
        return Criterion("a kill costs the last half second of records at most", None)
    ends = {life.name: life for life in evidence.lives if life.end is End.KILLED}
    worst = 0.0
    details = []
    for life in evidence.life_records:
        killed = ends.get(f"{life.role}.{life.number}")
        if killed is None or killed.ended is None:
            continue
        gap = killed.ended - life.last
        worst = max(worst, gap)
        if gap > UNWRITTEN:
            details.append(f"{killed.name}: the last record is {gap:.2f} s older than the kill")
    unexplained = evidence.losses.unexplained_unrecorded
    if unexplained:
        details.append(f"{len(unexplained):,} messages were received whose sending is not recorded")
    worst = max(worst, evidence.losses.oldest_unrecorded)
    text = f"a kill costs {worst:.2f} s of records, at most {UNWRITTEN:g} s"
    return Criterion(text, not details, tuple(details))


def losses_have_causes(evidence: Evidence) -> Criterion:
    """Each message that was sent and not received was lost with a process, or is counted as unacknowledged."""
    if evidence.losses is None or evidence.crossings is None:
        return Criterion("each message between nodes arrived, or was lost with a process or a connection", None)
    details = []
    for (role, number), lost in evidence.losses.broken_by_life.items():
        lines = evidence.counters.get(f"{role}.{number}", ())
        counted = max((line.unacknowledged for line in lines), default=0)
        if lost > counted:
            details.append(f"{role}.{number}: {lost:,} lost without a cause, {counted:,} counted as unacknowledged")
    by_cause = evidence.losses.by_cause
    with_process = by_cause[Cause.RECEIVER_ENDED] + by_cause[Cause.SENDER_ENDED]
    text = (
        f"{evidence.crossings.matched:,} messages crossed; {with_process:,} were lost with a process,"
        f" {by_cause[Cause.CONNECTION_BROKE]:,} with a connection"
    )
    return Criterion(text, not details, tuple(details))


def nothing_was_delivered_twice(evidence: Evidence) -> Criterion:
    """No message of the load was delivered more than once."""
    text = "no message was delivered twice"
    if evidence.life_records is None or evidence.level is not Level.FULL:
        return Criterion(text, None, ("it takes captures of level full",))
    details = (f"{evidence.delivered_twice:,} were",) if evidence.delivered_twice else ()
    return Criterion(text, not details, details)


# -- the tables --------------------------------------------------------------------------------------------------------


def batch_has_all_records(evidence: Evidence) -> Criterion:
    """Each record is a row of the batch job's messages or rejects."""
    return _all_records("the batch job", evidence.records, evidence.batch_rows)


def stream_has_all_records(evidence: Evidence) -> Criterion:
    """Each record is a row of the stream's messages or rejects."""
    return _all_records("the stream", evidence.records, evidence.stream_rows)


def _all_records(who: str, records: int | None, rows: int | None) -> Criterion:
    if records is None or rows is None:
        return Criterion(f"each record is a row of {who}'s tables", None)
    text = f"{records:,} records are {rows:,} rows of {who}'s messages and rejects"
    return Criterion(text, records == rows)


def stream_equals_batch(evidence: Evidence) -> Criterion:
    """All tables have the same rows."""
    if evidence.comparisons is None:
        return Criterion("the stream's tables are those of the batch job", None)
    details = [str(each) for each in evidence.comparisons if not each.is_equal]
    rows = sum(each.batch for each in evidence.comparisons)
    text = f"the stream's {len(evidence.comparisons)} tables are those of the batch job, {rows:,} rows"
    return Criterion(text, not details, tuple(details))


# -- memory and descriptors --------------------------------------------------------------------------------------------


def memory_is_level(evidence: Evidence) -> Criterion:
    """No process that lived long enough takes more memory at the end than after the first fifth of its life."""
    if not evidence.growths:
        return Criterion("memory is level", None, ("no process lived long enough",))
    worst = max(growth.memory.growth for growth in evidence.growths)
    details = tuple(
        f"{growth.process}.{growth.life}: {growth.memory.before / 1e6:,.0f} MB, then"
        f" {growth.memory.after / 1e6:,.0f} MB ({growth.memory.growth:+.1%}) in {growth.seconds:,.0f} s"
        for growth in evidence.growths
        if growth.memory.growth > MEMORY_GROWTH
    )
    text = f"memory grows by {worst:+.1%} in {len(evidence.growths)} long lives, at most {MEMORY_GROWTH:.0%}"
    return Criterion(text, not details, details)


def descriptors_are_flat(evidence: Evidence) -> Criterion:
    """No process that lived long enough has more open files at the end than after the first fifth of its life."""
    if not evidence.growths:
        return Criterion("file descriptors are flat", None, ("no process lived long enough",))
    details = tuple(
        f"{growth.process}.{growth.life}: {growth.descriptors.before:g}, then {growth.descriptors.after:g}"
        for growth in evidence.growths
        if growth.descriptors.after - growth.descriptors.before > DESCRIPTOR_GROWTH
    )
    return Criterion(f"file descriptors are flat in {len(evidence.growths)} long lives", not details, details)


def is_met(criteria: Iterable[Criterion]) -> bool:
    """Return whether no criterion is not met."""
    return all(criterion.is_met is not False for criterion in criteria)
