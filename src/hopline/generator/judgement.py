"""Were the planted faults found, all of them and nothing else? The pipeline's tables beside the truth.

>>> from pathlib import Path
>>> for score in judge(Path("out/truth"), Path("tables")):  # doctest: +SKIP
...     print(score.what, score.precision, score.recall)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

Row = tuple[Any, ...]
Found = Iterable[Row]

_FLOW_FIGURES = ("origin", "identity", "messages", "records", "hops", "nodes", "start_ts", "end_ts", "duration_us")
_NESTING = ("flow_id", "parent_flow_id", "journey_id")
_JOURNEY = ("journey_id", "flows", "depth", "outcome")
_CALLBACK = ("flow_id", "asked_node", "asked_receiver", "callback_key")
_CALLBACK_FIGURES = ("answer_identity", "asked_ts", "answered_ts", "latency_us")
_ENDINGS = ("expired", "unroutable", "rejected", "overflow", "hop_limit", "failed")
_AUDITED = ("records", "dropped", "rejects", "copies", "submitted", "received", "sent", "delivered", *_ENDINGS)
_VERDICTS = ("verified", "unsigned", "bad_signature", "wrong_domain", "unknown_domain", "replayed")


@dataclass(frozen=True, slots=True)
class Score:
    """What was planted and what was found of one kind: the numbers, and some that are wrong."""

    what: str
    planted: int
    found: int
    right: int
    missed: tuple[Row, ...] = field(default=(), repr=False)
    invented: tuple[Row, ...] = field(default=(), repr=False)

    @property
    def precision(self) -> float:
        """The share of what was found that is true."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of what is true that was found."""
        return self.right / self.planted if self.planted else 1.0

    @property
    def is_perfect(self) -> bool:
        """Tell whether everything was found and nothing else."""
        return self.planted == self.found == self.right


def judge(truth: Path, tables: Path) -> Iterator[Score]:
    """Compare every table with the truth, one kind of finding after the other."""
    yield from _flows(truth, tables)
    yield from _callbacks(truth, tables)
    yield from _hops(truth, tables)
    yield from _security(truth, tables)
    yield _score("rejects", _rows(truth, "rejects", _REJECT), _rows(tables, "rejects", _REJECT))
    yield _skew(truth, tables)
    yield _audit(truth, tables)


_REJECT = ("node", "seq", "code")
_SHOWN = 5


def _score(what: str, planted: Found, found: Found) -> Score:
    planted_counts, found_counts = Counter(planted), Counter(found)
    missed, invented = planted_counts - found_counts, found_counts - planted_counts
    return Score(
        what,
        planted_counts.total(),
        found_counts.total(),
        (planted_counts & found_counts).total(),
        tuple(list(missed)[:_SHOWN]),
        tuple(list(invented)[:_SHOWN]),
    )


def _rows(folder: Path, table: str, columns: Iterable[str], where: pc.Expression | None = None) -> Iterator[Row]:
    path = folder / table if (folder / table).exists() else folder / f"{table}.parquet"
    read = ds.dataset(path, format="parquet", partitioning="hive")
    columns = list(columns)
    for batch in read.to_batches(columns=columns, filter=where):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _flows(truth: Path, tables: Path) -> Iterator[Score]:
    columns = ("flow_id", "outcome", *_FLOW_FIGURES)
    yield from _by_outcome("flows", 1, columns, truth, tables)
    nested = ds.field("parent_flow_id").is_valid()
    yield _score("flows: nested", *(_rows(folder, "flows", _NESTING, nested) for folder in (truth, tables)))
    yield _score("journeys", *(_rows(folder, "journeys", _JOURNEY) for folder in (truth, tables)))


def _callbacks(truth: Path, tables: Path) -> Iterator[Score]:
    columns = (*_CALLBACK, "outcome", *_CALLBACK_FIGURES)
    yield from _by_outcome("callbacks", len(_CALLBACK), columns, truth, tables)


def _by_outcome(table: str, at: int, columns: tuple[str, ...], truth: Path, tables: Path) -> Iterator[Score]:
    """Judge each outcome by itself, and then all figures."""
    sides: list[dict[str, list[Row]]] = []
    figures: list[list[Row]] = []
    for folder in (truth, tables):
        outcomes: dict[str, list[Row]] = defaultdict(list)
        all_of_them: list[Row] = []
        for row in _rows(folder, table, columns):
            outcomes[row[at]].append(row[:at])
            all_of_them.append(row)
        sides.append(outcomes)
        figures.append(all_of_them)
    planted, found = sides
    for outcome in sorted(planted.keys() | found.keys()):
        yield _score(f"{table}: {outcome}", planted.get(outcome, ()), found.get(outcome, ()))
    yield _score(f"{table}: every figure", *figures)


def _hops(truth: Path, tables: Path) -> Iterator[Score]:
    kind, record = ds.field("class"), ("node", "seq")
    lost = _rows(tables, "hops", ("from_node", "sent_seq"), ds.field("lost"))
    yield _score("hops: lost", _rows(truth, "faults", record, kind == "lost"), lost)
    replays = set(_rows(truth, "faults", record, kind == "replayed"))
    twice = _rows(tables, "hops", ("to_node", "received_seq"), ds.field("duplicate"))
    duplicates = (row for row in twice if row not in replays)  # a replay in its sender's name is one too
    yield _score("hops: duplicated", _rows(truth, "faults", record, kind == "duplicated"), duplicates)
    pairs: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    columns = ("from_node", "to_node", "sent_ts", "received_ts", "lost", "duplicate")
    for source, target, sent, received, is_lost, is_duplicate in _rows(tables, "hops", columns):
        pairs[source, target].update(
            sent=sent is not None, received=received is not None, lost=is_lost is True, duplicates=is_duplicate is True
        )
    names = ("sent", "received", "lost", "duplicates")
    counted = [(*pair, *(counts[name] for name in names)) for pair, counts in pairs.items()]
    yield _score("hops: totals of every pair", _rows(truth, "hops", ("from_node", "to_node", *names)), counted)


def _security(truth: Path, tables: Path) -> Iterator[Score]:
    columns = ("offence", "node", "seq", "peer", "domain", "flow_id", "identity")
    sides: list[dict[str, list[Row]]] = []
    for folder in (truth, tables):
        offences: dict[str, list[Row]] = defaultdict(list)
        for offence, *rest in _rows(folder, "incidents", columns):
            offences[offence].append(tuple(rest))
        sides.append(offences)
    planted, found = sides
    for offence in sorted(planted.keys() | found.keys()):
        yield _score(f"incidents: {offence}", planted.get(offence, ()), found.get(offence, ()))
    counts: Counter[Row] = Counter()
    for node, peer, domain, *verdicts in _rows(tables, "security", ("node", "peer", "domain", *_VERDICTS)):
        for verdict, count in zip(_VERDICTS, verdicts, strict=True):
            counts[node, peer, domain, verdict] += count
    totals = [(*key, count) for key, count in counts.items() if count]
    yield _score("security: totals", _rows(truth, "security", ("node", "peer", "domain", "verdict", "count")), totals)


def _skew(truth: Path, tables: Path) -> Score:
    """Take a pair for found when the truth is within the bound of the estimate."""
    clocks: dict[str, int] = dict(map(_pair, _rows(truth, "skew", ("node", "offset_us"))))
    estimates = list(_rows(tables, "skew", ("node_a", "node_b", "offset_us", "bound_us", "date")))
    right = [row for row in estimates if row[2] is None or abs(row[2] - (clocks[row[1]] - clocks[row[0]])) <= row[3]]
    return _score("skew: within its bound", estimates, right)


def _pair(row: Row) -> tuple[str, int]:
    node, offset = row
    return node, offset


def _audit(truth: Path, tables: Path) -> Score:
    columns = ("node", "hour", *_AUDITED)
    return _score("audit: every count", _rows(truth, "audit", columns), _rows(tables, "audit", columns))
