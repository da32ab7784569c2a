"""Twenty seconds of what ``make soak`` does for as long as you like: a load, a kill -9, a pause, and the verdict.

Times depend on the machine, so the criteria about them are left to ``make soak``, which has the machine for itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hopline.capture.segment_files import segments_in
from tests.soak.examination import evidence_of, examine_records, examine_tables
from tests.soak.faults import Fault, FaultKind
from tests.soak.soak import NODES, Course, Soak, SoakOptions, show_line
from tests.soak.verdict import Criterion, Evidence, judge, kills_cost_little, load_was_kept_up

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc"),
]

SECONDS = 20
RATE = 200.0  # messages a second
FAULTS = (
    Fault(at=5.0, kind=FaultKind.KILL, role="node-2"),
    Fault(at=10.0, kind=FaultKind.PAUSE, role="node-3", seconds=2.0),
)
SPARK_FAULTS = (
    Fault(at=30.0, kind=FaultKind.KILL, role="stream"),
    Fault(at=45.0, kind=FaultKind.KILL, role="node-2"),
)


def soak(directory: Path, faults: Sequence[Fault], seconds: float, *, with_stream: bool) -> tuple[Course, Evidence]:
    options = SoakOptions(
        directory=directory,
        minutes=seconds / 60,
        rate=RATE,
        seed=0,
        faults=tuple(faults),
        segment_time=2.0,
        with_stream=with_stream,
    )
    course = Soak(options, show_line).run()
    evidence = evidence_of(course)
    examine_records(course, evidence, show_line)
    if with_stream:
        examine_tables(course, evidence, show_line)
    return course, evidence


def failed(evidence: Evidence) -> list[Criterion]:
    depend_on_time = [criterion(evidence) for criterion in (load_was_kept_up, kills_cost_little)]
    criteria = [criterion for criterion in judge(evidence) if criterion not in depend_on_time]
    return [criterion for criterion in criteria if criterion.is_met is False]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, Evidence]:
    return soak(tmp_path_factory.mktemp("soak"), FAULTS, SECONDS, with_stream=False)


def test_outcomes_balance_although_a_node_is_killed_and_one_is_paused(run: tuple[Course, Evidence]) -> None:
    course, evidence = run
    assert failed(evidence) == []
    assert [injected.fault for injected in course.injected] == list(FAULTS)
    assert sorted(life.name for life in course.lives if life.role in NODES) == [
        "node-1.1",
        "node-2.1",
        "node-2.2",
        "node-3.1",
    ]
    assert evidence.crossings is not None
    assert evidence.crossings.matched > 0.5 * RATE * SECONDS


def test_a_segment_that_is_lost_would_be_found(run: tuple[Course, Evidence]) -> None:
    course, _ = run
    of_first_node = [path for path in segments_in(course.options.captures) if path.name.startswith(NODES[0])]
    of_first_node[len(of_first_node) // 2].unlink()
    evidence = evidence_of(course)
    examine_records(course, evidence, show_line)
    texts = [text for criterion in failed(evidence) for text in (criterion.text, *criterion.details)]
    assert any("records were written" in text for text in texts)
    assert any("numbers are missing" in text for text in texts)
    assert any("lost without a cause" in text for text in texts)
    assert any("sending is not recorded" in text for text in (*texts, *kills_cost_little(evidence).details))


@pytest.mark.slow
@pytest.mark.jvm
def test_a_stream_that_is_killed_makes_the_tables_of_the_batch_job(tmp_path: Path) -> None:
    course, evidence = soak(tmp_path, SPARK_FAULTS, 75.0, with_stream=True)
    assert failed(evidence) == []
    assert evidence.stream_rows == evidence.batch_rows == evidence.records
    assert [injected.fault for injected in course.injected] == list(SPARK_FAULTS)


def test_all_processes_are_measured_and_none_outlives_the_run(run: tuple[Course, Evidence]) -> None:
    course, _ = run
    assert {sample.process for sample in course.samples} == {"rendezvous", *NODES}
    assert course.children_left == 0
    assert all(life.ended is not None for life in course.lives)
