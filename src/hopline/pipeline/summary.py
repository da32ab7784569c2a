"""What a person wants to know of the tables first: a few findings, each with the command that digs further."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopline.pipeline.days import Days
from hopline.pipeline.query import Tables, open_tables, quoted

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


def findings(location: str | Path, days: Days | None = None) -> list[Finding]:
    """Look through the tables at a location, of some days or of all, for what is worth knowing."""
    with open_tables(location) as tables:
        seen = [_Seen(tables, name, days or Days()) for name in tables.names if tables.files(name)]
        found = [look(one) for one in seen for look in _LOOKS.get(one.table, ())]
    return [finding for finding in found if finding.rows]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A table as the findings look at it."""

    tables: Tables
    table: str
    days: Days

    def rows(self, columns: str, where: str = "true", *, then: str = "") -> list[dict[str, Any]]:
        """Return columns, or what is computed of them, of the rows of these days; `then` groups, sorts and limits."""
        first = f"date >= '{self.days.first}'" if self.days.first else "true"
        last = f"date <= '{self.days.last}'" if self.days.last else "true"
        question = f"select {columns} from {quoted(self.table)} where ({where}) and {first} and {last} {then}"  # noqa: S608
        return list(self.tables.ask(question).records())

    def counts(self, *columns: str) -> list[tuple[tuple[Any, ...], int]]:
        """Count rows by the values of some columns, the most frequent first."""
        names = ", ".join(columns)
        rows = self.rows(f"{names}, count(*) as count", then=f"group by all order by count desc, {names}")
        return [(tuple(row[column] for column in columns), row["count"]) for row in rows]

    def command(self, where: str = "", order_by: str = "") -> str:
        """Write the command that shows the rows behind a finding."""
        parts = ["hopline", "tables", shlex.quote(str(self.tables.location)), self.table]
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
    links = seen.rows(
        "from_node, to_node, count(*) filter (lost) as lost, count(*) filter (lost is not true) as duplicates",
        "lost or duplicate",
        then="group by all order by count(*) desc, from_node, to_node",
    )
    rows = [
        (_short(link["from_node"]), _short(link["to_node"]), _number(link["lost"]), _number(link["duplicates"]))
        for link in links
    ]
    lost, duplicates = (sum(link[kind] for link in links) for kind in ("lost", "duplicates"))
    title = f"Lost and duplicate hops: {_number(lost)} lost, {_number(duplicates)} duplicates"
    headers = ("from", "to", "lost", "duplicates")
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
    columns = "flow_id, outcome, identity, origin, messages, duration_us, skew_us, critical_path"
    # As they are, the worst would be those between odd clocks.
    worst = f"order by duration_us - coalesce(skew_us, 0) desc, flow_id limit {SHOWN}"
    rows = seen.rows(columns, "outcome <> 'complete'", then=worst)
    trouble = bool(rows)
    rows = rows or seen.rows(columns, then=worst)
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
    slowest = seen.rows(
        "node, actor, actor_name, handler, identity, window_start, count, errors, run_p99_us, wait_p99_us",
        then="qualify row_number() over (partition by node, actor, identity"
        " order by run_p99_us desc nulls last, window_start) = 1"
        " order by run_p99_us desc nulls last, node, actor, identity",
    )
    return Finding(
        "Slowest handlers, by their worst window",
        ("actor", "at", "handles", "window", "messages", "errors", "run p99", "wait p99"),
        tuple(
            (
                _handler_name(row) or _short(row["actor"]),
                _short(row["node"]),
                row["identity"] or "",
                f"{row['window_start']:%Y-%m-%d %H:%M}",
                _number(row["count"]),
                _number(row["errors"]),
                duration(row["run_p99_us"]),
                duration(row["wait_p99_us"]),
            )
            for row in slowest
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
    surely = seen.rows(
        "date, node_a, node_b, offset_us, bound_us",
        "bound_us >= 0 and abs(offset_us) > bound_us",
        then="order by abs(offset_us) desc, node_a, node_b, date",
    )
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
    rows = seen.rows(
        "date, node_a, node_b, min_transit_ab_us, min_transit_ba_us",
        "bound_us < 0",
        then="order by bound_us, node_a, node_b, date",
    )
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
    rows = seen.rows(
        "node, hour, balance, dropped, missing",
        "balanced = false or dropped > 0 or missing > 0",
        then="order by coalesce(balance, 0) = 0, hour, node",
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
