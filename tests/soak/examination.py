"""What is found out about a run when it is over: from counters, captures and tables to evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hopline.query.comparison import compare_tables
from tests.soak import measurements
from tests.soak.load import IDENTITIES
from tests.soak.losses import explain
from tests.soak.processes import run
from tests.soak.records import read_records, records_in
from tests.soak.soak import NODES, STREAM, Course
from tests.soak.stream import COUNTED, finish, late_records, run_batch
from tests.soak.verdict import Evidence


def evidence_of(course: Course) -> Evidence:
    """Return what is known without reading the captures."""
    options = course.options
    nodes = [life for life in course.lives if life.role in NODES]
    return Evidence(
        rate=options.rate,
        seconds=max(0.0, course.load_ended - course.load_began) if course.load_began else 0.0,
        level=options.level,
        lives=course.lives,
        counters={life.name: course.counters_of(life) for life in nodes},
        faults=[(injected.began, injected.ended) for injected in course.injected if injected.fault.role != STREAM],
        problems=course.problems,
        children_left=course.children_left,
        is_drained=course.is_drained,
        growths=measurements.growths(course.samples),
        lateness=course.lateness,
    )


def examine_records(course: Course, evidence: Evidence, show: Callable[[str], None]) -> None:
    """Read the captures, and add what they prove."""
    options = course.options
    log = options.directory / "logs" / "recover.log"
    run(["-m", "hopline", "capture", "recover", str(options.captures)], log)
    evidence.records = records_in(options.captures)
    show(f"reading {evidence.records:,} records")
    database = _new(options.directory / "records.duckdb")
    with read_records(options.captures, course.lives, database) as records:
        evidence.rejects = records.rejects
        evidence.life_records = records.by_life()
        evidence.numbers = records.numbers()
        evidence.delivered_twice = records.delivered_twice(IDENTITIES)
        evidence.crossings = records.crossings()
    evidence.losses = explain(evidence.crossings.lost, evidence.crossings.unrecorded, course.lives)
    database.unlink()


def examine_tables(course: Course, evidence: Evidence, show: Callable[[str], None]) -> None:
    """Bring the stream to its end, run the batch job, and compare their tables."""
    options = course.options
    logs = options.directory / "logs"
    batch = options.directory / "tables-of-batch"
    evidence.late = late_records(options.tables, logs / "late.log")
    show("letting the stream read what is left")
    finish(options.captures, options.tables, logs / "stream.final.log")
    show("running the batch job")
    run_batch(options.captures, batch, logs / "batch.log")
    show("comparing the tables")
    comparisons = compare_tables(options.tables, batch, scratch=options.directory)
    counted = [each for each in comparisons if each.table in COUNTED]
    evidence.stream_rows = sum(each.stream for each in counted)
    evidence.batch_rows = sum(each.batch for each in counted)
    evidence.comparisons = comparisons


def _new(file: Path) -> Path:
    file.unlink(missing_ok=True)
    return file
