"""What the tables show about the demonstration: questions, answers, and the command that shows more of each.

Every answer has a few lines of at most 76 characters, so that all of them fit one screen.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hopline.demo.reasons import Row, reasons_of, rows_of

_BAR_WIDTH = 24  # characters of the longest bar
_MOST_REASONS = 3
_MOST_STAGES = 5
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
    return "-" if us is None else f"{us / 1000:,.1f} ms"


def _bar(value: int, longest: int) -> str:
    length = round(_BAR_WIDTH * max(0, value) / max(1, longest))
    if value > 0:
        length = max(1, length)
    return ("█" * length).ljust(_BAR_WIDTH)


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_WIDTH else f"{line[: _LINE_WIDTH - 1]}…"


def _outcomes(tables: Path) -> Finding:
    flows = rows_of(tables, "flows", ("flow_id", "outcome", "identity"))
    orders = {flow["flow_id"]: flow["outcome"] for flow in flows if flow["identity"] == _ORDER}
    incomplete = {flow: outcome for flow, outcome in orders.items() if outcome != "complete"}
    reasons = reasons_of(tables, incomplete)
    counts = Counter(orders.values())
    lines: list[str] = []
    for outcome, count in counts.most_common():
        lines.append(f"{outcome:<12}{_bar(count, counts.total())} {count:>6,}")
        causes = Counter(reason for flow, reason in reasons.items() if orders[flow] == outcome)
        lines += _most_frequent(causes)
    return Finding(
        f"Which of the {len(orders):,} orders did not complete, and why?",
        tuple(lines),
        _command(tables, "flows", "outcome != 'complete'", "duration_us desc"),
    )


def _most_frequent(causes: Counter[str]) -> list[str]:
    in_order = sorted(causes.items(), key=lambda cause: (-cause[1], cause[0]))
    lines = [_cut(f"{count:>5,} x {reason}") for reason, count in in_order[:_MOST_REASONS]]
    others = sum(count for _, count in in_order[_MOST_REASONS:])
    if others:
        lines.append(f"{others:>5,} x other reasons")
    return lines


def _slowest_order(tables: Path) -> Finding:
    columns = ("flow_id", "outcome", "duration_us", "identity", "critical_path")
    flows = [flow for flow in rows_of(tables, "flows", columns) if _is_shipped_order(flow)]
    slowest = max(flows, key=lambda flow: (flow["duration_us"], flow["flow_id"]), default=None)
    if slowest is None:
        return Finding(
            "Where did the slowest order spend its time?", ("no order was shipped",), _command(tables, "flows")
        )
    path = slowest["critical_path"]
    longest_stages = sorted(path, key=lambda stage: -stage["us"])[:_MOST_STAGES]
    longest = longest_stages[0]["us"]
    lines = []
    for stage in path:
        if stage in longest_stages:
            place = f"{stage['stage']:<8} {stage['node']:<10} {stage['identity']:<15}"
            lines.append(f"{place} {_bar(stage['us'], longest)} {_ms(stage['us']):>11}")
    return Finding(
        f"Where did the slowest shipped order spend its {_ms(slowest['duration_us'])}?",
        tuple(lines),
        _command(tables, "messages", f"flow_id = '{slowest['flow_id']}'"),
    )


def _is_shipped_order(flow: Row) -> bool:
    return flow["identity"] == _ORDER and flow["outcome"] == "complete" and bool(flow["critical_path"])


def _slow_handlers(tables: Path) -> Finding:
    columns = ("node", "actor_name", "handler", "count", "errors", "wait_p95_us", "run_p95_us", "window_start")
    windows: dict[str, list[Row]] = {}
    for row in rows_of(tables, "handlers", columns):
        windows.setdefault(f"{row['node']} {row['actor_name']}.{row['handler']}", []).append(row)
    by_wait = sorted(windows.items(), key=lambda entry: -_worst(entry[1], "wait_p95_us"))
    lines = [f"{'handler':<28}{'handled':>8}{'failed':>8}{'wait p95':>14}{'run p95':>14}"]
    for name, rows in by_wait:
        handled, failed = (sum(row[column] for row in rows) for column in ("count", "errors"))
        wait, run = _ms(_worst(rows, "wait_p95_us")), _ms(_worst(rows, "run_p95_us"))
        lines.append(f"{name:<28}{handled:>8,}{failed:>8,}{wait:>14}{run:>14}")
    return Finding("Which handlers are slow?", tuple(lines), _command(tables, "handlers", order_by="wait_p95_us desc"))


def _worst(rows: list[Row], column: str) -> int:
    return max(row[column] or 0 for row in rows)


def _hops(tables: Path) -> Finding:
    links: dict[tuple[str, str], Counter[str]] = {}
    for row in rows_of(tables, "hops", ("from_node", "to_node", "lost", "duplicate", "sent_ts", "received_ts")):
        link = links.setdefault((row["from_node"] or "?", row["to_node"] or "?"), Counter())
        link["hops"] += 1
        link["lost"] += row["lost"] is True
        link["unknown"] += row["lost"] is None
        link["duplicate"] += bool(row["duplicate"])
    lines = [f"{'from':<12}{'to':<12}{'hops':>8}{'lost':>8}{'unknown':>9}{'duplicate':>11}"]
    for (sender, receiver), link in sorted(links.items()):
        counts = f"{link['hops']:>8,}{link['lost']:>8,}{link['unknown']:>9,}{link['duplicate']:>11,}"
        lines.append(f"{sender:<12}{receiver:<12}{counts}")
    return Finding("Which messages were lost between nodes?", tuple(lines), _command(tables, "hops", "lost = true"))


def _forged_messages(tables: Path) -> Finding:
    incidents = rows_of(tables, "incidents", ("peer", "offence"))
    offences = Counter((row["peer"] or "an unknown peer", row["offence"]) for row in incidents)
    undecodable = Counter(row["code"] for row in rows_of(tables, "rejects", ("code",)))
    lines = []
    for (peer, offence), count in offences.most_common():
        name = offence.replace("_", " ")
        lines.append(f"{count:>5,} x {name}, from {peer}")
    lines += [f"{count:>5,} x not decodable ({code})" for code, count in undecodable.most_common()]
    return Finding("Which messages were forged?", tuple(lines) or ("none",), _command(tables, "incidents"))


def _accounting(tables: Path) -> Finding:
    columns = ("records", "dropped", "missing", "balance")
    totals: dict[str, Counter[str]] = {}
    for row in rows_of(tables, "audit", ("node", *columns)):
        total = totals.setdefault(row["node"], Counter())
        total.update({column: row[column] or 0 for column in columns})
    lines = [f"{'node':<12}{'records':>9}{'dropped':>9}{'missing':>9}{'balance':>9}"]
    for node, total in sorted(totals.items()):
        counts = "".join(f"{total[column]:>9,}" for column in columns)
        lines.append(f"{node:<12}{counts}")
    return Finding("Are all messages accounted for?", tuple(lines), _command(tables, "audit"))
