"""What the tables show about the demonstration: questions, answers, and the command that shows more of each.

Every answer has a few lines of at most 76 characters, so that all of them fit one screen.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopline.demo.reasons import Row, reasons_of, rows_of

_BAR_WIDTH = 24  # characters of the longest bar
_MOST_REASONS = 2
_MOST_STAGES = 4
_MOST_HANDLERS = 3
_LINE_WIDTH = 76
_ORDER = "ORDER.PLACED"


@dataclass(frozen=True, slots=True)
class Finding:
    """A question, the lines of its answer, and the command that shows the rows behind it."""

    question: str
    lines: tuple[str, ...]
    command: str


def findings(tables: Path) -> Iterator[Finding]:
    """Yield what an operator would ask first, with the answers of the tables."""
    yield _outcomes(tables)
    yield _slowest_order(tables)
    yield _slow_handlers(tables)
    yield _hops(tables)
    yield _forged_messages(tables)
    yield _accounting(tables)


def _command(tables: Path, name: str, where: str = "", order_by: str = "") -> str:
    words = ["hopline", "tables", str(tables), name]
    if where:
        words += ["--where", where]
    if order_by:
        words += ["--order-by", order_by]
    return shlex.join(words)


def _ms(us: int | None) -> str:
    if us is None:
        return "-"
    milliseconds = us / 1000
    return f"{milliseconds:,.1f} ms"


def _bar(value: int, longest: int) -> str:
    length = 0
    if value > 0:
        scaled = _BAR_WIDTH * value / max(1, longest)
        length = max(1, round(scaled))
    bar = "█" * length
    return bar.ljust(_BAR_WIDTH)


def _cut(line: str) -> str:
    if len(line) <= _LINE_WIDTH:
        return line
    start = line[: _LINE_WIDTH - 1]
    return f"{start}…"


def _frequency(count: int, text: str) -> str:
    return f"{count:>5,} x {text}"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a text table: names are aligned to the left, everything else to the right."""

    heading: str
    width: int
    is_name: bool = False

    def aligned(self, cell: str) -> str:
        """Return a cell padded to the width of the column."""
        if self.is_name:
            return cell.ljust(self.width)
        return cell.rjust(self.width)


def _table_line(columns: Sequence[_Column], cells: Iterable[str | int]) -> str:
    parts = []
    for column, cell in zip(columns, cells, strict=True):
        text = f"{cell:,}" if isinstance(cell, int) else cell
        parts.append(column.aligned(text))
    return "".join(parts)


def _heading_line(columns: Sequence[_Column]) -> str:
    return _table_line(columns, [column.heading for column in columns])


def _outcomes(tables: Path) -> Finding:
    outcome_of = _order_outcomes(tables)
    incomplete = {flow: outcome for flow, outcome in outcome_of.items() if outcome != "complete"}
    reason_of = reasons_of(tables, incomplete)
    counts = Counter(outcome_of.values())
    lines: list[str] = []
    for outcome, count in counts.most_common():
        bar = _bar(count, counts.total())
        lines.append(f"{outcome:<12}{bar} {count:>6,}")
        reasons = [reason for flow, reason in reason_of.items() if outcome_of[flow] == outcome]
        lines += _most_frequent(Counter(reasons))
    return Finding(
        question=f"Which of the {len(outcome_of):,} orders did not complete, and why?",
        lines=tuple(lines),
        command=_command(tables, "flows", "outcome != 'complete'", "duration_us desc"),
    )


def _order_outcomes(tables: Path) -> Mapping[str, str]:
    """Return the outcome of each order by its flow id."""
    outcomes = {}
    for flow in rows_of(tables, "flows", ("flow_id", "outcome", "identity")):
        if flow["identity"] == _ORDER:
            outcomes[flow["flow_id"]] = flow["outcome"]
    return outcomes


def _most_frequent(reasons: Counter[str]) -> list[str]:
    in_order = sorted(reasons)
    in_order.sort(key=reasons.__getitem__, reverse=True)
    lines = []
    for reason in in_order[:_MOST_REASONS]:
        line = _frequency(reasons[reason], reason)
        lines.append(_cut(line))
    others = sum(reasons[reason] for reason in in_order[_MOST_REASONS:])
    if others:
        lines.append(_frequency(others, "other reasons"))
    return lines


def _slowest_order(tables: Path) -> Finding:
    slowest = _slowest_flow(tables)
    if slowest is None:
        return Finding(
            question="Where did the slowest order spend its time?",
            lines=("no order was shipped",),
            command=_command(tables, "flows"),
        )
    flow_id = slowest["flow_id"]
    duration = _ms(slowest["duration_us"])
    return Finding(
        question=f"Where did the slowest shipped order spend its {duration}?",
        lines=_longest_stages(slowest["critical_path"]),
        command=_command(tables, "messages", f"flow_id = '{flow_id}'"),
    )


def _slowest_flow(tables: Path) -> Row | None:
    columns = ("flow_id", "outcome", "duration_us", "identity", "critical_path")
    flows = rows_of(tables, "flows", columns)
    shipped = [flow for flow in flows if _is_shipped_order(flow)]
    return max(shipped, key=_duration_key, default=None)


def _is_shipped_order(flow: Row) -> bool:
    is_order = flow["identity"] == _ORDER
    is_complete = flow["outcome"] == "complete"
    return is_order and is_complete and bool(flow["critical_path"])


def _duration_key(flow: Row) -> tuple[int, str]:
    return flow["duration_us"], flow["flow_id"]


def _longest_stages(path: list[Row]) -> tuple[str, ...]:
    """Return a line for each of the longest stages of a path, in the order of the path."""
    by_time = sorted(path, key=_stage_time, reverse=True)
    longest_stages = by_time[:_MOST_STAGES]
    longest = _stage_time(by_time[0])
    lines = []
    for stage in path:
        if stage in longest_stages:
            time = _stage_time(stage)
            name = f"{stage['stage']:<8} {stage['node']:<10} {stage['identity']:<15}"
            lines.append(f"{name} {_bar(time, longest)} {_ms(time):>11}")
    return tuple(lines)


def _stage_time(stage: Row) -> int:
    time: int = stage["us"]
    return time


def _slow_handlers(tables: Path) -> Finding:
    columns = (
        _Column("handler", 28, is_name=True),
        _Column("handled", 8),
        _Column("failed", 8),
        _Column("wait p95", 14),
        _Column("run p95", 14),
    )
    windows = _handler_windows(tables)
    by_wait = sorted(windows, key=lambda handler: -_worst(windows[handler], "wait_p95_us"))
    lines = [_heading_line(columns)]
    for handler in by_wait[:_MOST_HANDLERS]:
        rows = windows[handler]
        wait = _ms(_worst(rows, "wait_p95_us"))
        run = _ms(_worst(rows, "run_p95_us"))
        cells = (handler, _total(rows, "count"), _total(rows, "errors"), wait, run)
        lines.append(_table_line(columns, cells))
    return Finding(
        question="Which handlers are slow?",
        lines=tuple(lines),
        command=_command(tables, "handlers", order_by="wait_p95_us desc"),
    )


def _handler_windows(tables: Path) -> dict[str, list[Row]]:
    """Return the rows of each handler, one for each window of time."""
    columns = ("node", "actor_name", "handler", "count", "errors", "wait_p95_us", "run_p95_us", "window_start")
    windows: dict[str, list[Row]] = {}
    for row in rows_of(tables, "handlers", columns):
        handler = f"{row['node']} {row['actor_name']}.{row['handler']}"
        windows.setdefault(handler, []).append(row)
    return windows


def _total(rows: list[Row], column: str) -> int:
    return sum(row[column] for row in rows)


def _worst(rows: list[Row], column: str) -> int:
    return max(row[column] or 0 for row in rows)


def _hops(tables: Path) -> Finding:
    columns = (
        _Column("from", 12, is_name=True),
        _Column("to", 12, is_name=True),
        _Column("hops", 8),
        _Column("lost", 8),
        _Column("unknown", 9),
        _Column("duplicate", 11),
    )
    links = _counts_of_links(tables)
    lines = [_heading_line(columns)]
    flawless = 0
    for nodes in sorted(links):
        counts = links[nodes]
        if not (counts["lost"] or counts["unknown"] or counts["duplicate"]):
            flawless += counts["hops"]
            continue
        cells = (*nodes, counts["hops"], counts["lost"], counts["unknown"], counts["duplicate"])
        lines.append(_table_line(columns, cells))
    cells = ("all others", "", flawless, 0, 0, 0)
    lines.append(_table_line(columns, cells))
    return Finding(
        question="Which messages were lost between nodes?",
        lines=tuple(lines),
        command=_command(tables, "hops", "lost = true"),
    )


def _counts_of_links(tables: Path) -> dict[tuple[str, str], Counter[str]]:
    """Return the counts of hops by the sending and the receiving node."""
    columns = ("from_node", "to_node", "lost", "duplicate", "sent_ts", "received_ts")
    links: dict[tuple[str, str], Counter[str]] = {}
    for hop in rows_of(tables, "hops", columns):
        sender = hop["from_node"] or "?"
        receiver = hop["to_node"] or "?"
        counts = links.setdefault((sender, receiver), Counter())
        counts["hops"] += 1
        counts["lost"] += hop["lost"] is True
        counts["unknown"] += hop["lost"] is None
        counts["duplicate"] += bool(hop["duplicate"])
    return links


def _forged_messages(tables: Path) -> Finding:
    offences: Counter[str] = Counter()
    peers: dict[str, set[str]] = {}
    for incident in rows_of(tables, "incidents", ("peer", "offence")):
        offence = incident["offence"].replace("_", " ")
        peer = incident["peer"] or "an unknown peer"
        offences[offence] += 1
        peers.setdefault(offence, set()).add(peer)
    lines = []
    for offence, count in offences.most_common():
        senders = ", ".join(sorted(peers[offence]))
        lines.append(_cut(_frequency(count, f"{offence}, from {senders}")))
    undecodable = _undecodable_codes(tables)
    if undecodable:
        codes = ", ".join(sorted(set(undecodable)))
        lines.append(_cut(_frequency(len(undecodable), f"not decodable ({codes})")))
    return Finding(
        question="Which messages were forged?",
        lines=tuple(lines) or ("none",),
        command=_command(tables, "incidents"),
    )


def _undecodable_codes(tables: Path) -> list[str]:
    """Return why each undecodable message could not be decoded.

    Such a message has two records, `received` and `rejected`; only the first is counted.
    """
    rejects = rows_of(tables, "rejects", ("code", "event"))
    return [reject["code"] for reject in rejects if reject["event"] == "received"]


def _accounting(tables: Path) -> Finding:
    names = ("records", "dropped", "missing", "balance")
    totals: dict[str, Counter[str]] = {}
    for row in rows_of(tables, "audit", ("node", *names)):
        total = totals.setdefault(row["node"], Counter())
        for name in names:
            total[name] += row[name] or 0
    counts = [_Column(name, 9) for name in names]
    columns = (_Column("node", 12, is_name=True), *counts)
    lines = [_heading_line(columns)]
    for node in sorted(totals):
        cells = [totals[node][name] for name in names]
        lines.append(_table_line(columns, (node, *cells)))
    if any(total["balance"] for total in totals.values()):
        lines.append("balance: messages in minus messages out; a killed node leaves some open")
    return Finding(
        question="Are all messages accounted for?",
        lines=tuple(lines),
        command=_command(tables, "audit"),
    )
