"""The report of a run: one page, as text for a terminal of 80 columns and as Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.soak.processes import End
from tests.soak.soak import NODES, Course
from tests.soak.verdict import Criterion, Evidence, is_met, messages_of_load

WIDTH = 80
_MOST_DETAILS = 5
_MARGIN = "  "


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and a table or paragraphs below it. The first row of a table has its headings."""

    heading: str
    rows: Sequence[Sequence[str]] = ()
    paragraphs: Sequence[str] = ()


def sections(course: Course, evidence: Evidence, criteria: Sequence[Criterion]) -> list[Section]:
    """Return what a report has to say."""
    return [
        Section("Verdict", paragraphs=[_summary(course, criteria)]),
        Section("What ran", paragraphs=_what_ran(course, evidence)),
        Section("Faults", paragraphs=[_faults(course)]),
        Section("Messages", rows=_messages(evidence)),
        Section("Memory and file descriptors", rows=_growths(evidence)),
        Section("Criteria", rows=_criteria(criteria)),
    ]


def as_text(report: Sequence[Section]) -> str:
    """Return a report as text for a terminal."""
    lines = []
    for section in report:
        lines += [section.heading, ""]
        for paragraph in section.paragraphs:
            lines += textwrap.wrap(paragraph, WIDTH, initial_indent=_MARGIN, subsequent_indent=_MARGIN)
        lines += _text_table(section.rows)
        lines.append("")
    return "\n".join(lines)


def as_markdown(report: Sequence[Section]) -> str:
    """Return a report as Markdown."""
    lines = ["# Soak", ""]
    for section in report:
        lines += [f"## {section.heading}", ""]
        for paragraph in section.paragraphs:
            lines += [*textwrap.wrap(paragraph, 100), ""]
        if section.rows:
            first, *rest = section.rows
            lines += [_markdown_row(first), _markdown_row(["---"] * len(first)), *map(_markdown_row, rest), ""]
    return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    joined = " | ".join(cell.replace("|", "\\|") for cell in cells)
    return f"| {joined} |"


def _text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table whose last column is wrapped, and whose other columns are as wide as their longest cell."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        before = _MARGIN + "".join(cell.ljust(width + 2) for cell, width in zip(row, widths, strict=False))
        indent = " " * len(before)
        lines += textwrap.wrap(row[-1], WIDTH, initial_indent=before, subsequent_indent=indent) or [before.rstrip()]
    return lines


# -- the sections ------------------------------------------------------------------------------------------------------


def _summary(course: Course, criteria: Sequence[Criterion]) -> str:
    failed = sum(criterion.is_met is False for criterion in criteria)
    open_ones = sum(criterion.is_met is None for criterion in criteria)
    what = "met" if is_met(criteria) else f"NOT MET: {failed} of {len(criteria)} criteria"
    unjudged = f"; {open_ones} not judged" if open_ones else ""
    interrupted = "; the run was interrupted" if course.is_interrupted else ""
    return f"{what}{unjudged}{interrupted}"


def _what_ran(course: Course, evidence: Evidence) -> list[str]:
    options = course.options
    stream = "a stream" if options.with_stream else "no stream"
    lines = [
        f"{len(NODES)} nodes, a rendezvous server and {stream} for {evidence.seconds / 60:.1f} minutes; "
        f"{options.rate:,.0f} messages a second, counted where they are submitted: questions, answers and notes; "
        f"captures of level {options.level}, a segment every {options.segment_time:g} s; seed {options.seed}.",
    ]
    if evidence.records is not None:
        lines.append(f"{evidence.records:,} records were captured, {evidence.rejects:,} of them could not be decoded.")
    if evidence.lateness:
        values = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in evidence.lateness.items())
        lines.append(f"From a record to its table: {values}; {evidence.late:,} records came too late for the stream.")
    return lines


def _faults(course: Course) -> str:
    texts = [f"{injected.began - course.load_began:.0f} s {injected.fault}" for injected in course.injected]
    return "; ".join(texts) or "none"


def _messages(evidence: Evidence) -> list[Sequence[str]]:
    lasts = [lines[-1] for lines in evidence.counters.values() if lines]
    failed: Counter[str] = Counter()
    for last in lasts:
        failed.update(last.load.failed)
    not_noted: Counter[str] = Counter()
    for last in lasts:
        not_noted.update(last.load.not_noted)
    killed = sum(life.end is not End.STOPPED for life in evidence.nodes)
    rows: list[Sequence[str]] = [("count", "messages"), (f"{messages_of_load(evidence):,}", "submitted")]
    rows += [
        (f"{sum(last.load.asked for last in lasts):,}", "questions asked"),
        (f"{sum(last.load.answered for last in lasts):,}", "answered"),
    ]
    rows += [(f"{count:,}", f"questions failed: {reason}") for reason, count in failed.most_common()]
    pending = sum(last.load.pending for last in lasts)
    rows.append((f"{pending:,}", f"questions waited in the {killed} lives that were killed"))
    rows.append((f"{sum(last.load.noted for last in lasts):,}", "notes sent"))
    rows.append((f"{sum(last.notes for last in lasts):,}", "notes handled"))
    rows += [(f"{count:,}", f"notes not sent: {reason}") for reason, count in not_noted.most_common()]
    rows.append((f"{sum(last.load.skipped for last in lasts):,}", "skipped, because their node was paused"))
    return rows


def _growths(evidence: Evidence) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("process", "seconds", "MB", "then", "files", "then")]
    rows += [
        (
            f"{growth.process}.{growth.life}",
            f"{growth.seconds:,.0f}",
            f"{growth.memory.before / 1e6:,.0f}",
            f"{growth.memory.after / 1e6:,.0f}",
            f"{growth.descriptors.before:g}",
            f"{growth.descriptors.after:g}",
        )
        for growth in evidence.growths
    ]
    return rows if len(rows) > 1 else []


def _criteria(criteria: Sequence[Criterion]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("", "criterion")]
    for criterion in criteria:
        rows.append((criterion.word, criterion.text))
        rows += [("", f"- {detail}") for detail in criterion.details[:_MOST_DETAILS]]
        if len(criterion.details) > _MOST_DETAILS:
            rows.append(("", f"- and {len(criterion.details) - _MOST_DETAILS} more"))
    return rows
