"""What the tables say about the shop's evening: each finding with the command that digs further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hopline.demo.reasons import Row, reasons_of, rows_of

_BAR = 40  # characters for the longest bar
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One question, what the tables answer, and how to ask on."""

    question: str
    lines: tuple[str, ...]
    command: str


def findings(tables: Path) -> Iterator[Finding]:
    """Ask the tables what everybody would ask first."""
    yield _where_flows_ended(tables)
    yield _longest_road(tables)
    yield _where_time_goes(tables)
    yield _hops(tables)
    yield _forgers(tables)
    yield _books(tables)


def _digging(tables: Path, name: str, where: str = "", order: str = "") -> str:
    options = (("--where", where), ("--order-by", order))
    return f"hopline tables {tables} {name}" + "".join(f' {option} "{value}"' for option, value in options if value)


def _ms(us: int | None) -> str:
    return "-" if us is None else f"{us / 1000:,.1f} ms"


def _where_flows_ended(tables: Path) -> Finding:
    flows = rows_of(tables, "flows", ("flow_id", "outcome", "identity"))
    orders = {flow["flow_id"]: flow["outcome"] for flow in flows if flow["identity"] == "ORDER.PLACED"}
    counts = Counter(orders.values())
    reasons = reasons_of(tables, {flow: outcome for flow, outcome in orders.items() if outcome != "complete"})
    lines: list[str] = []
    for outcome, count in counts.most_common():
        lines.append(f"{outcome:<12}{_bar(count, counts.total())} {count:>6}")
        why = Counter(reason for flow, reason in reasons.items() if orders[flow] == outcome)
        most_frequent = sorted(why.items(), key=lambda one: (-one[1], one[0]))[:_SHOWN]
        lines += [f"{number:>8} x {reason}" for reason, number in most_frequent]
        if others := why.total() - sum(number for _, number in most_frequent):
            lines.append(f"{others:>8} x something else")
    return Finding(
        f"Which of the {len(orders)} orders did not complete, and why?",
        tuple(lines),
        _digging(tables, "flows", "outcome != 'complete'", "duration_us desc"),
    )


def _longest_road(tables: Path) -> Finding:
    flows = [
        flow
        for flow in rows_of(tables, "flows", ("flow_id", "outcome", "duration_us", "identity", "critical_path"))
        if flow["outcome"] == "complete" and flow["critical_path"] and flow["identity"] == "ORDER.PLACED"
    ]
    slowest = max(flows, key=lambda flow: (flow["duration_us"], flow["flow_id"]), default=None)
    if slowest is None:
        return Finding("Which road did an order take?", ("no order was shipped",), _digging(tables, "flows"))
    longest = max(stage["us"] for stage in slowest["critical_path"])
    lines = [
        f"{stage['stage']:<8} {stage['node']:<10} {stage['identity']:<15} "
        f"{_bar(stage['us'], longest)} {_ms(stage['us']):>12}"
        for stage in slowest["critical_path"]
    ]
    return Finding(
        f"Which road did the slowest shipped order take, and where did its {_ms(slowest['duration_us'])} go?",
        tuple(lines),
        _digging(tables, "messages", f"flow_id = '{slowest['flow_id']}'"),
    )


def _where_time_goes(tables: Path) -> Finding:
    columns = (
        "node",
        "actor_name",
        "handler",
        "count",
        "errors",
        "wait_p95_us",
        "run_p95_us",
        "busy_share",
        "window_start",
    )
    by_handler: dict[tuple[str, str], list[Row]] = {}
    for row in rows_of(tables, "handlers", columns):
        by_handler.setdefault((row["node"], f"{row['actor_name']}.{row['handler']}"), []).append(row)
    worst = sorted(by_handler.items(), key=lambda one: -max(row["wait_p95_us"] or 0 for row in one[1]))
    lines = [f"{'handler':<28}{'handled':>8}{'failed':>8}{'wait p95':>14}{'run p95':>14}"]
    for (node, handler), rows in worst:
        wait, run = (max(row[name] or 0 for row in rows) for name in ("wait_p95_us", "run_p95_us"))
        handled, failed = (sum(row[name] for row in rows) for name in ("count", "errors"))
        lines.append(f"{node + ' ' + handler:<28}{handled:>8}{failed:>8}{_ms(wait):>14}{_ms(run):>14}")
    return Finding("Where does the time go?", tuple(lines), _digging(tables, "handlers", order="wait_p95_us desc"))


def _hops(tables: Path) -> Finding:
    pairs: dict[tuple[str, str], Counter[str]] = {}
    for row in rows_of(tables, "hops", ("from_node", "to_node", "lost", "duplicate", "sent_ts", "received_ts")):
        pair = pairs.setdefault((row["from_node"] or "?", row["to_node"] or "?"), Counter())
        pair["hops"] += 1
        pair["lost"] += row["lost"] is True
        pair["unseen"] += row["lost"] is None
        pair["duplicate"] += bool(row["duplicate"])
    lines = [f"{'from':<12}{'to':<12}{'hops':>8}{'lost':>8}{'unwatched':>11}{'duplicates':>12}"]
    lines += [
        f"{source:<12}{target:<12}{pair['hops']:>8}{pair['lost']:>8}{pair['unseen']:>11}{pair['duplicate']:>12}"
        for (source, target), pair in sorted(pairs.items())
    ]
    return Finding("What was lost between the nodes?", tuple(lines), _digging(tables, "hops", "lost = true"))


def _forgers(tables: Path) -> Finding:
    offences = Counter(
        (row["peer"] or "somebody who is no node", row["offence"])
        for row in rows_of(tables, "incidents", ("peer", "offence"))
    )
    garbage = Counter(row["code"] for row in rows_of(tables, "rejects", ("code",)))
    lines = [
        f"{count:>6} x {offence.replace('_', ' ')}, from {peer}" for (peer, offence), count in offences.most_common()
    ]
    lines += [f"{count:>6} x no message at all ({code})" for code, count in garbage.most_common()]
    return Finding("Which messages were forged?", tuple(lines) or ("none",), _digging(tables, "incidents"))


def _books(tables: Path) -> Finding:
    lines = [f"{'node':<12}{'records':>9}{'dropped':>9}{'missing':>9}{'balance':>9}"]
    lines += [
        f"{row['node']:<12}{row['records']:>9}{row['dropped']:>9}{row['missing']:>9}{row['balance']:>9}"
        for row in sorted(
            rows_of(tables, "audit", ("node", "hour", "records", "dropped", "missing", "balance")),
            key=lambda row: (row["node"], row["hour"]),
        )
    ]
    return Finding("Is every message accounted for?", tuple(lines), _digging(tables, "audit"))


def _bar(value: int, longest: int) -> str:
    return ("█" * max(1 if value > 0 else 0, round(_BAR * max(0, value) / max(1, longest)))).ljust(_BAR)
