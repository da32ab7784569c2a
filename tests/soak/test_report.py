"""The report is one page of 80 columns."""

from __future__ import annotations

from pathlib import Path

from hopline.query.comparison import TableComparison
from tests.soak.evidence import BEGAN, ENDED, KILLED, good
from tests.soak.faults import Fault, FaultKind
from tests.soak.report import WIDTH, as_markdown, as_text, sections
from tests.soak.soak import Course, Injected, SoakOptions
from tests.soak.verdict import judge

PAGE = 80  # lines


def reported(*, is_interrupted: bool = False, differing: int = 0) -> tuple[str, str]:
    """Return the report of a run as text and as Markdown."""
    options = SoakOptions(directory=Path("soak"), minutes=1, rate=4, seed=7, faults=())
    course = Course(options, load_began=BEGAN, load_ended=ENDED, is_interrupted=is_interrupted)
    course.injected = [
        Injected(Fault(at=30.0, kind=FaultKind.KILL, role="node-2"), KILLED, KILLED + 1),
        Injected(Fault(at=50.0, kind=FaultKind.PAUSE, role="node-1", seconds=2.5), KILLED + 20, KILLED + 22.5),
    ]
    evidence = good()
    evidence.comparisons = [TableComparison(f"table {number}", 20, 20, 1, 1) for number in range(differing)]
    report = sections(course, evidence, judge(evidence))
    return as_text(report), as_markdown(report)


def test_a_report_fits_the_terminal_and_says_what_was_met() -> None:
    text, _ = reported()
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= PAGE
    assert lines[:3] == ["Verdict", "", "  met"]
    assert "30 s kill node-2; 50 s pause node-1 2.5 s" in text
    assert "p50 12 s, p95 20 s" in text


def test_what_was_not_met_comes_first_and_long_lists_are_cut() -> None:
    text, _ = reported(differing=12)
    assert "NOT MET: 1 of 16 criteria" in text.splitlines()[2]
    assert "table 4: 1 rows only of the stream" in text
    assert "table 5" not in text
    assert "- and 7 more" in text


def test_an_interrupted_run_says_so() -> None:
    text, _ = reported(is_interrupted=True)
    assert "the run was interrupted" in text


def test_markdown_has_the_same_rows() -> None:
    _, markdown = reported()
    assert markdown.startswith("# Soak\n\n## Verdict\n\nmet\n")
    assert "| node-1.1 | 200 | 100 | 103 | 20 | 21 |" in markdown
    assert "| met | counters balance in each of 6 lines |" in markdown
