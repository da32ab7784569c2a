"""What a person wants to know of the tables first: a few findings, each with the command that digs further."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.catalogue import WrittenTable, written_tables
from hopline.pipeline.days import Days

SHOWN = 5
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HARMLESS = re.compile(r"[\w .,:;=<>()'@/+-]*")


@dataclass(frozen=True, slots=True)
class Finding:
    """Some rows about one matter; `command` shows more of it."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    command: str
    is_trouble: bool = False

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The first of them."""
        return self.rows[:SHOWN]

    @property
    def hidden(self) -> int:
        """How many others there are."""
        return len(self.rows) - len(self.shown)


def findings(out: Path, days: Days | None = None) -> list[Finding]:
    """Look through the tables in a folder, of some days or of all, for what is worth knowing."""
    seen = (_Seen(table, out, days or Days()) for table in written_tables(out))
    found = (look(one) for one in seen for look in _LOOKS.get(one.table.name, ()))
    return [finding for finding in found if finding.rows]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A table as the findings look at it."""

    table: WrittenTable
    out: Path
    days: Days

    def _where(self, more: pc.Expression | None) -> pc.Expression | None:
        terms = [more] if more is not None else []
        if self.days.first is not None:
            terms.append(pc.field("date") >= pc.scalar(self.days.first))
        if self.days.last is not None:
            terms.append(pc.field("date") <= pc.scalar(self.days.last))
        if not terms:
            return None
        where = terms[0]
        for term in terms[1:]:
            where = where & term
        return where

    def counts(self, *columns: str, where: pc.Expression | None = None) -> list[tuple[tuple[Any, ...], int]]:
        """Count rows by the values of some columns, the most frequent first; a batch at a time."""
        counter: Counter[tuple[Any, ...]] = Counter()
        for batch in self.table.batches(columns, self._where(where)):
            counted = pa.Table.from_batches([batch]).group_by(list(columns)).aggregate([([], "count_all")])
            for row in counted.to_pylist():
                counter[tuple(row[column] for column in columns)] += row["count_all"]
        return sorted(counter.items(), key=lambda item: (-item[1], [str(value) for value in item[0]]))

    def rows(self, columns: list[str], where: pc.Expression | None = None) -> list[dict[str, Any]]:
        """Give some columns of all rows: for tables that are small."""
        return [row for batch in self.table.batches(columns, self._where(where)) for row in batch.to_pylist()]

    def top(self, columns: list[str], by: pc.Expression, where: pc.Expression | None = None) -> list[dict[str, Any]]:
        """Give the rows with the largest values of something."""
        order = [("by", "descending"), (columns[0], "ascending")]
        rows = self.table.first_rows(columns, self._where(where), order, SHOWN, {"by": by})
        return list(rows.to_pylist())

    def command(self, where: str = "", order_by: str = "") -> str:
        """Write the command that shows the rows behind a finding."""
        parts = ["hopline", "tables", shlex.quote(str(self.out)), self.table.name]
        for option, value in (("--where", where), ("--order-by", order_by)):
            if value:
                # Names off the wire stand in it: a shell must see nothing in them but text.
                parts += [option, f'"{value}"' if _HARMLESS.fullmatch(value) else shlex.quote(value)]
        return " ".join(parts)


def _rejects(seen: _Seen) -> Finding:
    counts = seen.counts("code")
    rows = tuple((code, _number(count)) for (code,), count in counts)
    first = counts[0][0][0] if counts else ""
    return Finding("Rejects by code", ("code", "records"), rows, seen.command(f"code = '{first}'"), is_trouble=True)


def _lost(seen: _Seen) -> Finding:
    bad = (pc.field("lost") == pc.scalar(True)) | (pc.field("duplicate") == pc.scalar(True))
    links: dict[tuple[str, str], list[int]] = {}
    for (source, target, lost, _), count in seen.counts("from_node", "to_node", "lost", "duplicate", where=bad):
        links.setdefault((source, target), [0, 0])[0 if lost else 1] += count
    rows = [
        (_short(source), _short(target), _number(lost), _number(doubled))
        for (source, target), (lost, doubled) in sorted(links.items(), key=lambda item: (-sum(item[1]), item[0]))
    ]
    headers = ("from", "to", "lost", "duplicates")
    total = [sum(one[index] for one in links.values()) for index in (0, 1)]
    title = f"Lost and duplicate hops: {_number(total[0])} lost, {_number(total[1])} duplicates"
    return Finding(title, headers, tuple(rows), seen.command("lost or duplicate"), is_trouble=True)


def _callbacks(seen: _Seen) -> Finding:
    rows = tuple((outcome, _number(count)) for (outcome,), count in seen.counts("outcome"))
    return Finding(
        "Callbacks by outcome",
        ("outcome", "requests"),
        rows,
        seen.command("outcome <> 'answered'", "latency_us desc"),
    )


def _outcomes(seen: _Seen) -> Finding:
    rows = tuple((outcome, _number(count)) for (outcome,), count in seen.counts("outcome"))
    command = seen.command("outcome = 'failed'", "duration_us desc")
    return Finding("Flows by outcome", ("outcome", "flows"), rows, command)


def _worst_flows(seen: _Seen) -> Finding:
    columns = ["flow_id", "outcome", "identity", "origin", "messages", "duration_us", "skew_us", "critical_path"]
    # As they are, the worst would be those between odd clocks.
    took = pc.field("duration_us") - pc.coalesce(pc.field("skew_us"), pc.scalar(0))
    rows = seen.top(columns, took, where=pc.field("outcome") != pc.scalar("complete"))
    trouble = bool(rows)
    rows = rows or seen.top(columns, took)
    flow = rows[0]["flow_id"] if rows else ""
    return Finding(
        f"{'Worst' if trouble else 'Slowest'} flows, by their durations less the skew of the clocks",
        ("flow", "outcome", "begins with", "at", "messages", "duration", "skew", "mostly in"),
        tuple(
            (
                row["flow_id"],
                row["outcome"],
                row["identity"] or "",
                _short(row["origin"]),
                _number(row["messages"]),
                duration(row["duration_us"]),
                "unknown" if row["skew_us"] is None else duration(row["skew_us"]),
                _longest_stage(row["critical_path"]),
            )
            for row in rows
        ),
        seen.command("flow_id = '" + flow.replace("'", "''") + "'"),
        is_trouble=trouble,
    )


def _longest_stage(path: list[dict[str, Any]] | None) -> str:
    if not path:
        return ""
    worst = max(path, key=lambda stage: stage["us"] or 0)
    return f"{worst['stage']} of {worst['identity']} at {_short(worst['node'])}, {duration(worst['us'])}"


def _handlers(seen: _Seen) -> Finding:
    columns = ["node", "actor", "actor_name", "handler", "identity", "window_start", "count", "errors"]
    columns += ["run_p99_us", "wait_p99_us"]
    worst: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in seen.rows(columns):
        key = (row["node"] or "", row["actor"] or "", row["identity"] or "")
        if key not in worst or (row["run_p99_us"] or 0) > (worst[key]["run_p99_us"] or 0):
            worst[key] = row
    slowest = sorted(worst.items(), key=lambda item: (-(item[1]["run_p99_us"] or 0), item[0]))
    return Finding(
        "Slowest handlers, by their worst window",
        ("actor", "at", "handles", "window", "messages", "errors", "run p99", "wait p99"),
        tuple(
            (
                _handler_name(row) or _short(actor),
                _short(node),
                identity,
                f"{row['window_start']:%Y-%m-%d %H:%M}",
                _number(row["count"]),
                _number(row["errors"]),
                duration(row["run_p99_us"]),
                duration(row["wait_p99_us"]),
            )
            for (node, actor, identity), row in slowest
        ),
        seen.command(order_by="run_p99_us desc"),
    )


def _handler_name(row: dict[str, Any]) -> str:
    """Return the handler as one would name it in code, such as ``Stock.reserve``; nothing where that is not known."""
    return ".".join(row[name] for name in ("actor_name", "handler") if row[name])


def _incidents(seen: _Seen) -> Finding:
    counts = seen.counts("offence", "node", "peer")
    rows = tuple((offence, _short(node), _short(peer), _number(count)) for (offence, node, peer), count in counts)
    first = counts[0][0][0] if counts else ""
    title = f"Incidents: {_number(sum(count for _, count in counts))}"
    return Finding(
        title, ("offence", "at", "from", "messages"), rows, seen.command(f"offence = '{first}'"), is_trouble=True
    )


def _skew(seen: _Seen) -> Finding:
    rows = seen.rows(["date", "node_a", "node_b", "offset_us", "bound_us"])
    estimates = [row for row in rows if row["offset_us"] is not None and row["bound_us"] >= 0]
    surely = [row for row in estimates if abs(row["offset_us"]) > row["bound_us"]]
    surely.sort(key=lambda row: (-abs(row["offset_us"]), row["node_a"], row["node_b"], row["date"]))
    return Finding(
        "Clocks that surely differ",
        ("day", "of", "against", "ahead by", "give or take"),
        tuple(
            (
                str(row["date"]),
                _short(row["node_b"]),
                _short(row["node_a"]),
                duration(row["offset_us"]),
                duration(row["bound_us"]),
            )
            for row in surely
        ),
        seen.command(order_by="offset_us" if surely and surely[0]["offset_us"] < 0 else "offset_us desc"),
        is_trouble=True,
    )


def _out_of_step(seen: _Seen) -> Finding:
    """Return the clocks of which no offset can be told: messages took less than no time there and back."""
    columns = ["date", "node_a", "node_b", "bound_us", "min_transit_ab_us", "min_transit_ba_us"]
    rows = seen.rows(columns, pc.field("bound_us") < pc.scalar(0))
    rows.sort(key=lambda row: (row["bound_us"], row["node_a"], row["node_b"], row["date"]))
    return Finding(
        "Clocks that did not keep step",
        ("day", "of", "and", "shortest way there", "shortest way back"),
        tuple(
            (
                str(row["date"]),
                _short(row["node_a"]),
                _short(row["node_b"]),
                duration(row["min_transit_ab_us"]),
                duration(row["min_transit_ba_us"]),
            )
            for row in rows
        ),
        seen.command("bound_us < 0", "bound_us"),
        is_trouble=True,
    )


def _audit(seen: _Seen) -> Finding:
    columns = ["node", "hour", "balance", "dropped", "missing"]
    bad = (
        (pc.field("balanced") == pc.scalar(False))
        | (pc.field("dropped") > pc.scalar(0))
        | (pc.field("missing") > pc.scalar(0))
    )
    rows = sorted(
        seen.rows(columns, bad), key=lambda row: (row["balance"] in (None, 0), row["hour"], row["node"] or "")
    )
    return Finding(
        "Books that do not hold, records that were not captured",
        ("node", "hour", "balance", "records dropped", "records missing"),
        tuple(
            (
                _short(row["node"]),
                f"{row['hour']:%Y-%m-%d %H}h",
                f"{row['balance']:+}" if row["balance"] else "0",
                _number(row["dropped"]),
                _number(row["missing"]),
            )
            for row in rows
        ),
        seen.command("balanced = false or dropped > 0 or missing > 0"),
        is_trouble=True,
    )


_LOOKS: dict[str, tuple[Callable[[_Seen], Finding], ...]] = {
    "rejects": (_rejects,),
    "hops": (_lost,),
    "callbacks": (_callbacks,),
    "flows": (_outcomes, _worst_flows),
    "handlers": (_handlers,),
    "incidents": (_incidents,),
    "skew": (_skew, _out_of_step),
    "audit": (_audit,),
}


def _short(name: str | None) -> str:
    """Write enough of a name to tell it from others: the beginning, where it is a GUID. Actors have a byte before."""
    text = (name or "").lstrip("\0\1")
    return text[:8] if _GUID.fullmatch(text) else text


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def duration(us: int | None) -> str:
    """Write a number of microseconds as people say it."""
    if us is None:
        return ""
    for unit, size in (("s", 1_000_000), ("ms", 1_000)):
        if abs(us) >= size:
            return f"{us / size:,.3g} {unit}" if abs(us) < 1000 * size else f"{us / size:,.0f} {unit}"
    return f"{us} µs"
