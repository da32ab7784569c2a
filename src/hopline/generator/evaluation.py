"""Comparing the pipeline's tables with the truth: which planted faults were found, and what else was.

>>> from pathlib import Path
>>> for score in evaluate(Path("out/truth"), Path("tables")):  # doctest: +SKIP
...     print(score.what, score.precision, score.recall)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow.compute as pc
import pyarrow.dataset as ds

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Iterable[Row]
Groups: TypeAlias = dict[str, list[Row]]
"""Rows by their kind."""

_EXAMPLES = 5

# The columns that are compared, table by table.
_FLOW_KEY = ("flow_id",)
_FLOW_FIGURES = ("origin", "identity", "messages", "records", "hops", "nodes", "start_ts", "end_ts", "duration_us")
_FLOW_NESTING = ("flow_id", "parent_flow_id", "journey_id")
_JOURNEY = ("journey_id", "flows", "depth", "outcome")
_CALLBACK_KEY = ("flow_id", "asked_node", "asked_receiver", "callback_key")
_CALLBACK_FIGURES = ("answer_identity", "asked_ts", "answered_ts", "latency_us")
_RECORD = ("node", "seq")
_PAIR_COUNTS = ("sent", "received", "lost", "duplicates")
_INCIDENT = ("offence", "node", "seq", "peer", "domain", "flow_id", "identity")
_VERDICTS = ("verified", "unsigned", "bad_signature", "wrong_domain", "unknown_domain", "replayed")
_REJECT = ("node", "seq", "code")
_ENDINGS = ("expired", "unroutable", "rejected", "overflow", "hop_limit", "failed")
_AUDIT_COUNTS = ("records", "dropped", "rejects", "copies", "submitted", "received", "sent", "delivered", *_ENDINGS)


@dataclass(frozen=True, slots=True)
class Score:
    """How one kind of finding compares with the truth: counts, and some examples of what is wrong."""

    what: str
    planted: int
    found: int
    right: int
    missed: tuple[Row, ...] = field(default=(), repr=False)
    invented: tuple[Row, ...] = field(default=(), repr=False)

    @property
    def precision(self) -> float:
        """The share of the findings that are true."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of the truth that was found."""
        return self.right / self.planted if self.planted else 1.0

    @property
    def is_perfect(self) -> bool:
        """Whether everything was found, and nothing else."""
        return self.planted == self.found == self.right


def evaluate(truth: Path, tables: Path) -> Iterator[Score]:
    """Yield the score of each kind of finding.

    Args:
        truth: The directory `truth` of a generated capture.
        tables: The tables that the pipeline made of the capture.
    """
    return _Evaluation(_Tables(truth), _Tables(tables)).scores()


class _Tables:
    """Tables in a directory, as one file or one folder each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        where: pc.Expression | None = None,
    ) -> Iterator[Row]:
        path = self._directory / table
        if not path.exists():
            path = self._directory / f"{table}.parquet"
        dataset = ds.dataset(path, format="parquet", partitioning="hive")
        for batch in dataset.to_batches(columns=list(columns), filter=where):
            values = [column.to_pylist() for column in batch.columns]
            yield from zip(*values, strict=True)


class _Outcomes(NamedTuple):
    """The rows of a table: their keys by outcome, and all columns together."""

    keys: Groups
    rows: list[Row]


class _Evaluation:
    def __init__(self, truth: _Tables, tables: _Tables) -> None:
        self._truth = truth
        self._tables = tables

    def scores(self) -> Iterator[Score]:
        yield from self._outcomes("flows", _FLOW_KEY, _FLOW_FIGURES)
        is_nested = ds.field("parent_flow_id").is_valid()
        yield self._same_rows("flows: nested", "flows", _FLOW_NESTING, is_nested)
        yield self._same_rows("journeys", "journeys", _JOURNEY)
        yield from self._outcomes("callbacks", _CALLBACK_KEY, _CALLBACK_FIGURES)
        yield self._lost()
        yield self._duplicated()
        yield self._pair_totals()
        yield from self._incidents()
        yield self._verdict_totals()
        yield self._same_rows("rejects", "rejects", _REJECT)
        yield self._skew()
        yield self._same_rows("audit: every count", "audit", ("node", "hour", *_AUDIT_COUNTS))

    def _same_rows(
        self,
        what: str,
        table: str,
        columns: Sequence[str],
        where: pc.Expression | None = None,
    ) -> Score:
        planted = self._truth.rows(table, columns, where)
        found = self._tables.rows(table, columns, where)
        return _score(what, planted, found)

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def _outcomes(self, table: str, key: Sequence[str], figures: Sequence[str]) -> Iterator[Score]:
        """Compare the keys of each outcome, and then all columns."""
        columns = (*key, "outcome", *figures)
        planted_rows = self._truth.rows(table, columns)
        found_rows = self._tables.rows(table, columns)
        planted = _by_outcome(planted_rows, len(key))
        found = _by_outcome(found_rows, len(key))
        yield from _scores_by_kind(table, planted.keys, found.keys)
        yield _score(f"{table}: every figure", planted.rows, found.rows)

    # -- hops ----------------------------------------------------------------------------------------------------------

    def _planted_records(self, fault: str) -> Iterator[Row]:
        return self._truth.rows("faults", _RECORD, ds.field("class") == fault)

    def _lost(self) -> Score:
        found = self._tables.rows("hops", ("from_node", "sent_seq"), ds.field("lost"))
        return _score("hops: lost", self._planted_records("lost"), found)

    def _duplicated(self) -> Score:
        replays = set(self._planted_records("replayed"))
        duplicates = self._tables.rows("hops", ("to_node", "received_seq"), ds.field("duplicate"))
        # A replay in its sender's name is a duplicate as well, but is not planted as one.
        found = [row for row in duplicates if row not in replays]
        return _score("hops: duplicated", self._planted_records("duplicated"), found)

    def _pair_totals(self) -> Score:
        totals: dict[Row, Counter[str]] = defaultdict(Counter)
        columns = ("from_node", "to_node", "sent_ts", "received_ts", "lost", "duplicate")
        for row in self._tables.rows("hops", columns):
            source, target, sent, received, is_lost, is_duplicate = row
            totals[source, target].update(
                sent=sent is not None,
                received=received is not None,
                lost=is_lost is True,
                duplicates=is_duplicate is True,
            )
        found: list[Row] = []
        for pair, counts in totals.items():
            figures = [counts[name] for name in _PAIR_COUNTS]
            found.append((*pair, *figures))
        planted = self._truth.rows("hops", ("from_node", "to_node", *_PAIR_COUNTS))
        return _score("hops: totals of every pair", planted, found)

    # -- security ------------------------------------------------------------------------------------------------------

    def _incidents(self) -> Iterator[Score]:
        planted = _by_first_column(self._truth.rows("incidents", _INCIDENT))
        found = _by_first_column(self._tables.rows("incidents", _INCIDENT))
        yield from _scores_by_kind("incidents", planted, found)

    def _verdict_totals(self) -> Score:
        totals: Counter[Row] = Counter()
        columns = ("node", "peer", "domain", *_VERDICTS)
        for node, peer, domain, *counts in self._tables.rows("security", columns):
            for verdict, count in zip(_VERDICTS, counts, strict=True):
                totals[node, peer, domain, verdict] += count
        found = [(*key, count) for key, count in totals.items() if count]
        planted = self._truth.rows("security", ("node", "peer", "domain", "verdict", "count"))
        return _score("security: totals", planted, found)

    # -- skew ----------------------------------------------------------------------------------------------------------

    def _skew(self) -> Score:
        """Count a pair as found when its true offset is within the bound of the estimate."""
        clocks = self._truth.rows("skew", ("node", "offset_us"))
        offsets: dict[str, int] = dict(clocks)
        columns = ("node_a", "node_b", "offset_us", "bound_us", "date")
        estimates = list(self._tables.rows("skew", columns))
        within_bound: list[Row] = []
        for row in estimates:
            node_a, node_b, estimate, bound, _ = row
            true_offset = offsets[node_b] - offsets[node_a]
            if estimate is None or abs(estimate - true_offset) <= bound:
                within_bound.append(row)
        return _score("skew: within its bound", estimates, within_bound)


def _score(what: str, planted: Rows, found: Rows) -> Score:
    planted_rows, found_rows = Counter(planted), Counter(found)
    right = planted_rows & found_rows
    missed = planted_rows - found_rows
    invented = found_rows - planted_rows
    return Score(
        what,
        planted=planted_rows.total(),
        found=found_rows.total(),
        right=right.total(),
        missed=tuple(missed)[:_EXAMPLES],
        invented=tuple(invented)[:_EXAMPLES],
    )


def _scores_by_kind(table: str, planted: Groups, found: Groups) -> Iterator[Score]:
    for kind in sorted(planted.keys() | found.keys()):
        planted_rows = planted.get(kind, ())
        found_rows = found.get(kind, ())
        yield _score(f"{table}: {kind}", planted_rows, found_rows)


def _by_outcome(rows: Rows, key_size: int) -> _Outcomes:
    """Group rows by their outcome, which stands behind the key."""
    outcomes = _Outcomes(defaultdict(list), [])
    for row in rows:
        outcome = row[key_size]
        outcomes.keys[outcome].append(row[:key_size])
        outcomes.rows.append(row)
    return outcomes


def _by_first_column(rows: Rows) -> Groups:
    groups: Groups = defaultdict(list)
    for first, *rest in rows:
        groups[first].append(tuple(rest))
    return groups
