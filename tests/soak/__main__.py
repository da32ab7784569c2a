"""The command line of the soak: ``make soak``, or ``python -m tests.soak``."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from hopline.capture.events import Level
from tests.soak.examination import evidence_of, examine_records, examine_tables
from tests.soak.faults import plan_faults
from tests.soak.report import as_markdown, as_text, sections
from tests.soak.soak import NODES, RENDEZVOUS, STREAM, Course, Soak, SoakError, SoakOptions, roles, show_line
from tests.soak.verdict import Evidence, is_met, judge

HELP = """
Run a network under load and faults, and judge what became of it.

Three nodes, a rendezvous server and a stream run for some minutes. Every twenty seconds one of them is killed or
paused. At the end the outcomes must balance, every record must be in a table, the stream's tables must be those of the
batch job, and memory and file descriptors must be level. The report says which of these were met; the exit code is 1 if
one was not.

\b
    python -m tests.soak --minutes 10 --seed 7   the same seed causes the same faults
    python -m tests.soak --without-stream        only the network and its captures
    python -m tests.soak --fault-period 0        no faults

The folder of a run keeps the captures, the tables, the counters of each node (a line a second), the measurements, the
logs of all processes, and the report as report.md. Ctrl-C ends the load and still reports what is known.
"""
MARKER = "hopline-soak"  # the file that marks a folder as one of an earlier run
_NOT_MET, _NO_RUN, _INTERRUPTED = 1, 2, 130


def prepare(directory: Path) -> None:
    """Create an empty folder; replace that of an earlier run."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / MARKER).is_file():
            raise SoakError(f"{directory} exists and is not of an earlier soak: name another with --out")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARKER).write_text("Made by `make soak`, which replaces this folder when it runs again.\n")


def examine(course: Course) -> Evidence:
    """Find out about a run as much as there was time for."""
    evidence = evidence_of(course)
    if course.is_interrupted:
        return evidence
    try:
        examine_records(course, evidence, show_line)
        if course.options.with_stream:
            examine_tables(course, evidence, show_line)
    except subprocess.CalledProcessError as error:
        course.problems.append(f"a command failed: {' '.join(error.cmd[1:4])}, see the logs")
    except KeyboardInterrupt:
        course.is_interrupted = True
    return evidence


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the load lasts.")] = 10.0,
    rate: Annotated[float, typer.Option(min=1, help="Messages a second: questions, answers and notes.")] = 2_000.0,
    seed: Annotated[int | None, typer.Option(help="Chooses the faults. Default: another one each time.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for everything that the run leaves.")] = Path("build/soak"),
    fault_period: Annotated[float, typer.Option(min=0, help="Seconds between two faults; 0 for none.")] = 20.0,
    level: Annotated[Level, typer.Option(help="What the nodes record.")] = Level.FULL,
    segment_time: Annotated[float, typer.Option(min=1, help="Seconds after which a segment is closed.")] = 10.0,
    without_stream: Annotated[bool, typer.Option("--without-stream", help="Leave out Spark.")] = False,
) -> None:
    """Run a network under load and faults, and judge what became of it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it is stopped like Ctrl-C, and leaves nothing behind
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    with_stream = not without_stream
    directory = out.resolve()
    all_roles = roles(with_stream=with_stream)
    faults = plan_faults(
        seed,
        minutes=minutes,
        period=fault_period,
        roles=all_roles,
        with_children=[STREAM],
        spared=[STREAM, RENDEZVOUS],
        never_killed=NODES[:1],
    )
    options = SoakOptions(
        directory=directory,
        minutes=minutes,
        rate=rate,
        seed=seed,
        faults=faults,
        level=level,
        segment_time=segment_time,
        with_stream=with_stream,
    )
    try:
        prepare(directory)
        show_line(f"soak of {minutes:g} minutes with {len(faults)} faults, seed {seed}, in {out}")
        course = Soak(options, show_line).run()
    except SoakError as error:
        show_line(f"soak: {error}")
        raise typer.Exit(_NO_RUN) from None
    began = time.monotonic()
    evidence = examine(course)
    criteria = judge(evidence)
    report = sections(course, evidence, criteria)
    (directory / "report.md").write_text(as_markdown(report), encoding="utf-8")
    sys.stdout.write(as_text(report))
    show_line(f"examined in {time.monotonic() - began:.0f} s; the report is {out}/report.md")
    if course.is_interrupted:
        raise typer.Exit(_INTERRUPTED)
    raise typer.Exit(0 if is_met(criteria) else _NOT_MET)


if __name__ == "__main__":
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    application.command(help=HELP)(main)
    application()
