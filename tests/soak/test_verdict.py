"""A run that meets all criteria does so until one thing is wrong, and then the verdict names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hopline.capture.events import Level
from hopline.query.comparison import TableComparison
from tests.soak.counters import Failure, Phase
from tests.soak.evidence import BEGAN, ENDED, EVENTS, KILLED, counters, good
from tests.soak.losses import UNWRITTEN
from tests.soak.measurements import Level as MeasuredLevel
from tests.soak.processes import End
from tests.soak.records import Unrecorded
from tests.soak.verdict import SETTLED, Evidence, is_met, judge, messages_of_load

replace = msgspec.structs.replace


def changed(**changes: Any) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        for name, value in changes.items():
            setattr(evidence, name, value)

    return change


def line(name: str, **changes: Any) -> Callable[[Evidence], None]:
    """Change the last line of counters of a life."""

    def change(evidence: Evidence) -> None:
        lines = evidence.counters[name]
        evidence.counters = {**evidence.counters, name: [*lines[:-1], replace(lines[-1], **changes)]}

    return change


def records(place: int, **changes: Any) -> Callable[[Evidence], None]:
    """Change what one life recorded."""

    def change(evidence: Evidence) -> None:
        lives = list(evidence.life_records or ())
        lives[place] = replace(lives[place], **changes)
        evidence.life_records = lives

    return change


def numbers(**changes: Any) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        evidence.numbers = [replace(evidence.numbers[0], **changes)]

    return change


def losses(**changes: Any) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        assert evidence.losses is not None
        evidence.losses = replace(evidence.losses, **changes)

    return change


def growth(**changes: Any) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        evidence.growths = [replace(evidence.growths[0], **changes)]

    return change


def ended(place: int, end: End) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        lives = list(evidence.lives)
        lives[place] = replace(lives[place], end=end, code=1)
        evidence.lives = lives

    return change


STOPPED = counters(ENDED, Phase.STOPPED)
BEFORE_FAULT = Failure(BEGAN, KILLED - 1, "no answer in time")
LONG_AFTER = Failure(KILLED + SETTLED + 2, KILLED + SETTLED + 3, "no answer in time")

WRONG = {
    "a process ended by itself": (ended(0, End.BY_ITSELF), "rendezvous.1: ended by itself, code 1"),
    "a process had to be killed": (ended(0, End.FORCED), "rendezvous.1: ended forced"),
    "a problem came up": (changed(problems=["a recovery failed"]), "a recovery failed"),
    "a child was left": (changed(children_left=1), "1 processes outlived"),
    "little was sent": (changed(rate=10.0), "the load was kept up"),
    "counters do not balance": (
        line("node-1.1", stats=replace(STOPPED.stats, submitted=61)),
        "node-1.1 at 1060: 101 came in, 100 ended, 0 wait",
    ),
    "a question has two outcomes": (
        line("node-2.1", load=replace(STOPPED.load, answered=21)),
        "node-2.1 at 1060: 1 questions have two outcomes".replace("1060", "1029"),
    ),
    "a message waits at the end": (
        line("node-1.1", stats=counters(ENDED, Phase.STOPPED, 1).stats),
        "node-1.1: 1 messages and 0 questions wait",
    ),
    "a question waits at the end": (
        line("node-1.1", load=replace(STOPPED.load, answered=19)),
        "node-1.1: 0 messages and 1 questions wait",
    ),
    "a node did not write its last line": (line("node-1.1", phase=Phase.DRAINED), "has not written its last counters"),
    "the load did not come to its end": (changed(is_drained=False), "it was not waited for"),
    "a question failed before the fault": (line("node-1.1", failures=[BEFORE_FAULT]), "1 x no answer in time"),
    "a question failed long after it": (line("node-1.1", failures=[LONG_AFTER]), "1 x no answer in time"),
    "messages came from nowhere": (records(1, from_nowhere=2), "node-2.1: 2 messages went out that had not come in"),
    "messages never went out": (records(0, waiting=2), "node-1.1: 2 messages came in and never went out"),
    "written records are gone": (records(1, records=199), "node-2.1: 200 records were written, 199 are there"),
    "a node recorded nothing": (changed(life_records=[]), "node-1.1: 200 records were written, 0 are there"),
    "an event was not recorded": (
        records(2, events=EVENTS | {"handled": 39}),
        "node-2.2: 40 counted as handled, 39 recorded",
    ),
    "a number is used twice": (numbers(repeated=1), "node-1: 1 records have the number of another one"),
    "a number is missing": (numbers(missing=1), "node-1: 1 numbers are missing, 0 counted as dropped"),
    "a record was dropped": (numbers(missing=1, dropped=1), "node-1: 1 records were dropped"),
    "a kill cost many records": (
        records(1, last=KILLED - UNWRITTEN - 1),
        f"node-2.1: the last record is {UNWRITTEN + 1:.2f} s older than the kill",
    ),
    "a sending was not recorded": (
        losses(unexplained_unrecorded=[Unrecorded("node-1", "node-2", "SOAK.NOTE", 1_010.0)]),
        "1 messages were received whose sending is not recorded",
    ),
    "a message was lost without a cause": (
        losses(broken_by_life={("node-1", 1): 3}),
        "node-1.1: 3 lost without a cause, 2 counted as unacknowledged",
    ),
    "a message was delivered twice": (changed(delivered_twice=1), "1 were"),
    "the batch job lost a record": (changed(batch_rows=609), "610 records are 609 rows of the batch job's"),
    "the stream lost a record": (changed(stream_rows=611), "610 records are 611 rows of the stream's"),
    "the stream differs": (
        changed(comparisons=[TableComparison("flows", 20, 20, 1, 1, ("duration_us",))]),
        "flows: 1 row only of the stream, 1 only of the batch job; they differ in duration_us",
    ),
    "memory grows": (
        growth(memory=MeasuredLevel(100e6, 106e6)),
        "node-1.1: 100 MB, then 106 MB (+6.0%) in 200 s",
    ),
    "descriptors are not closed": (growth(descriptors=MeasuredLevel(20, 22)), "node-1.1: 20, then 22"),
}


def test_a_good_run_meets_all_criteria() -> None:
    criteria = judge(good())
    assert [criterion.word for criterion in criteria] == ["met"] * len(criteria)


@pytest.mark.parametrize("wrong", WRONG)
def test_one_wrong_thing_is_found_and_named(wrong: str) -> None:
    change, text = WRONG[wrong]
    evidence = good()
    change(evidence)
    failed = [criterion for criterion in judge(evidence) if criterion.is_met is False]
    texts = [text for criterion in failed for text in (criterion.text, *criterion.details)]
    assert any(text in each for each in texts), texts
    assert not is_met(judge(evidence))


def test_every_criterion_can_fail() -> None:
    failing: set[int] = set()
    for change, _ in WRONG.values():
        evidence = good()
        change(evidence)
        failing |= {number for number, criterion in enumerate(judge(evidence)) if criterion.is_met is False}
    assert failing == set(range(len(judge(good()))))


def test_failures_at_a_fault_and_shortly_after_it_are_expected() -> None:
    for failure in (
        Failure(KILLED - 3, KILLED + 2, "no answer in time"),
        Failure(KILLED + SETTLED, KILLED + SETTLED + 5, "no answer in time"),
    ):
        evidence = good()
        line("node-1.1", failures=[failure])(evidence)
        assert is_met(judge(evidence))


def test_what_could_not_be_found_out_is_not_judged() -> None:
    evidence = good()
    changed(
        life_records=None, losses=None, crossings=None, batch_rows=None, stream_rows=None, comparisons=None, growths=()
    )(evidence)
    words = [criterion.word for criterion in judge(evidence)]
    assert words.count("met") == 5
    assert words.count("not judged") == 11
    assert is_met(judge(evidence))


def test_captures_of_the_wire_say_nothing_about_what_happens_inside_a_node() -> None:
    evidence = good()
    changed(level=Level.WIRE)(evidence)
    records(0, events={"sent": 60, "received": 40}, waiting=40)(evidence)
    assert is_met(judge(evidence))


def test_messages_of_the_load_are_questions_answers_and_notes() -> None:
    assert messages_of_load(good()) == 3 * (20 + 20 + 20)
