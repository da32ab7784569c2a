from __future__ import annotations

import io
import re

from rich.console import Console

from hopline.cli.pipeline_display import LiveProgress, PlainProgress, draw_findings, shown_progress, size_text
from hopline.pipeline.progress import Progress, Steps, Work
from hopline.pipeline.tables.findings import SHOWN, Finding, duration


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, force_terminal=terminal, width=120, markup=False, highlight=False), written


def some_steps(progress: Progress) -> None:
    steps = Steps(progress)
    steps.planned(["decode", "hops", "publish"])
    with steps.step("decode") as step:
        progress.moved("decode", Work(tasks=8, tasks_done=2, rows_read=1000, rows_written=900))
        step.rows = 20_000
    steps.note("1 of the captures cannot be read \x1b[31m")
    progress.began("hops")
    progress.moved("hops", Work(tasks=4, tasks_done=1, bytes_read=5_000_000))


def test_without_a_terminal_each_step_is_a_line_when_it_has_ended() -> None:
    plain, written = console(terminal=False)
    with shown_progress(plain) as progress:
        assert isinstance(progress, PlainProgress)
        some_steps(progress)
    lines = written.getvalue().splitlines()
    assert re.fullmatch(r"decode +\d+\.\d s  20,000 rows, [\d,]+ rows/s", lines[0])
    assert lines[1:] == ["note: 1 of the captures cannot be read \\x1b[31m"]


def test_on_a_terminal_steps_are_drawn_with_tasks_rows_and_rate() -> None:
    live = LiveProgress()
    some_steps(live)
    drawn, written = console(terminal=False)
    drawn.print(live)
    lines = written.getvalue().splitlines()
    assert re.match(r"✓ +decode +20,000 rows, [\d,]+ rows/s +0\.0 s", lines[0])
    assert re.search(r"hops .* 1/4 tasks, 5\.0 MB read +0 s", lines[1])
    assert lines[2].strip() == "publish"
    assert "\\x1b[31m" in lines[3]


def test_the_live_display_is_used_on_a_terminal_and_shows_rows_while_they_come() -> None:
    terminal, written = console(terminal=True)
    with shown_progress(terminal) as progress:
        progress.began("decode")
        progress.moved("decode", Work(tasks=8, tasks_done=2, rows_read=1000, rows_written=900))
    assert "2/8 tasks, 1,000 rows read" in written.getvalue()
    assert "900 written" in written.getvalue()


def test_findings_are_drawn_with_their_commands_and_nothing_that_a_terminal_obeys() -> None:
    drawn, written = console(terminal=False)
    rows = (("evil\x1b[2J", "1,000"), ("good", "5"))
    drawn.print(draw_findings([Finding("Rejects by code", ("code", "records"), rows, "hopline tables out rejects")]))
    told = written.getvalue()
    assert "evil\\x1b[2J    1,000" in told
    assert "\n  hopline tables out rejects\n" in told
    assert "more" not in told


def test_findings_say_how_many_they_do_not_show() -> None:
    drawn, written = console(terminal=False)
    rows = tuple((f"code {number}", "1") for number in range(SHOWN + 2))
    drawn.print(draw_findings([Finding("Rejects by code", ("code", "records"), rows, "hopline tables out rejects")]))
    told = written.getvalue()
    assert f"code {SHOWN - 1}" in told
    assert f"code {SHOWN}" not in told
    assert "\n  and 2 more\n" in told


def test_sizes_and_times_are_said_as_people_say_them() -> None:
    assert [size_text(size) for size in (0, 999, 1_500, 123_456_789, 2_000_000_000_000)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "123 MB",
        "2.0 TB",
    ]
    assert [duration(us) for us in (None, 0, -5, 1_500, 61_000_000, 3_600_000_000)] == [
        "",
        "0 µs",
        "-5 µs",
        "1.5 ms",
        "61 s",
        "3,600 s",
    ]
