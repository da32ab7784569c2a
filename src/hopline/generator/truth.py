"""What is true of the captures, told from what was planted. Nothing here looks at frames or matches records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.records import Event, Level, shown
from hopline.generator.draws import Numbers, Octets, guids
from hopline.generator.performance import Performance
from hopline.generator.script import NOBODY, Arrival, Lifetime, Step
from hopline.generator.stage import EVENTS, Cell, Stage
from hopline.generator.tape import Written
from hopline.generator.topology import Topology
from hopline.message import WireFormat

_HOUR_US = 3_600_000_000
_TIME = pa.timestamp("us", tz="UTC")
OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")
ENDINGS = ("expired", "unroutable", "rejected", "overflow", "hop_limit", "failed")
_TEXT, _LONG = pa.string(), pa.int64()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


SCHEMAS = {
    "faults": _schema(
        fault=_TEXT, kind=_TEXT, node=_TEXT, seq=_LONG, ts=_TIME, peer=_TEXT, flow_id=_TEXT, identity=_TEXT
    ),
    "flows": _schema(
        flow_id=_TEXT,
        scene=_TEXT,
        wire_format=_TEXT,
        outcome=_TEXT,
        origin=_TEXT,
        identity=_TEXT,
        messages=_LONG,
        records=_LONG,
        hops=_LONG,
        nodes=_LONG,
        answers=_LONG,
        start_ts=_TIME,
        end_ts=_TIME,
        duration_us=_LONG,
    ),
    "callbacks": _schema(
        flow_id=_TEXT,
        asked_node=_TEXT,
        asked_receiver=_TEXT,
        callback_key=_LONG,
        identity=_TEXT,
        outcome=_TEXT,
        answer_identity=_TEXT,
        asked_ts=_TIME,
        answered_ts=_TIME,
        latency_us=_LONG,
    ),
    "hops": _schema(
        from_node=_TEXT,
        to_node=_TEXT,
        sent=_LONG,
        received=_LONG,
        lost=_LONG,
        duplicates=_LONG,
        unwatched=_LONG,
        unsent=_LONG,
    ),
    "security": _schema(node=_TEXT, peer=_TEXT, domain=_TEXT, verdict=_TEXT, count=_LONG),
    "incidents": _schema(
        node=_TEXT, seq=_LONG, ts=_TIME, peer=_TEXT, offence=_TEXT, domain=_TEXT, flow_id=_TEXT, identity=_TEXT
    ),
    "rejects": _schema(node=_TEXT, seq=_LONG, ts=_TIME, event=_TEXT, code=_TEXT),
    "skew": _schema(node=_TEXT, uri=_TEXT, offset_us=_LONG, captured=pa.bool_()),
    "audit": _schema(
        node=_TEXT,
        hour=_TIME,
        records=_LONG,
        dropped=_LONG,
        rejects=_LONG,
        **{str(event): _LONG for event in EVENTS},
        copies=_LONG,
    ),
}


class Truth:
    """Collects the tables. Rows of flows are written as they come; what is counted, at the end."""

    def __init__(self, directory: Path, stage: Stage, topology: Topology, seed: int, start: int) -> None:
        directory.mkdir(parents=True)
        self._writers = {
            name: pq.ParquetWriter(directory / f"{name}.parquet", schema, compression="zstd")
            for name, schema in SCHEMAS.items()
        }
        self._stage = stage
        self._topology = topology
        self._seed = seed
        self._start = start
        self._names = pa.array(topology.names(), _TEXT)
        self._hubs = pa.array([shown(row.tobytes()) for row in topology.hubs], _TEXT)
        size = topology.nodes
        self._pairs = {arrival: np.zeros((size, size), np.int64) for arrival in Arrival}
        self._verdicts: dict[tuple[str, str], Numbers] = {}
        self._audit: dict[tuple[int, int], Numbers] = {}
        self._lookups = _Lookups(stage)
        self.totals: dict[str, int] = {}

    # -- flows and callbacks -------------------------------------------------------------------------------------------

    def add(self, one: Performance) -> None:
        """Take what some flows of one kind are like."""
        self._count_transits(one)
        steps = [step for step in one.cell.recorded if not one.cell.play.steps[step].is_offence]
        if not one.cell.play.is_flow or all(one.cell.play.steps[step].code for step in steps) or not one.count:
            return
        self._add_flows(one, steps)
        if one.cell.play.fate.callback:
            self._add_callbacks(one)

    def _add_flows(self, one: Performance, steps: list[int]) -> None:
        play, fate = one.cell.play, one.cell.play.fate
        roots = roots_of(one.cell)
        all_times = [one.clock(step) for step in steps]
        starts = _extreme([one.clock(step) for step in roots] or all_times, np.minimum)
        answered = fate.answered_at in one.cell.sites
        ends = one.clock(fate.answered_at) if answered else _extreme(all_times, np.maximum)
        origin = one.nodes[:, play.steps[0].role] if roots else None
        outcome = fate.outcome if roots else "orphan"
        times = {step: one.rows(step) // one.count for step in steps}
        letters = {play.images[play.steps[step].image].letter: times[step] for step in steps}
        sendings = sum(times[step] for step in steps if counts_as_hop(play.steps[step]))
        self._write(
            "flows",
            one.count,
            flow_id=_texts(one.correlations),
            scene=play.name,
            wire_format=play.wire_format.name,
            outcome=outcome,
            origin=None if origin is None else self._names.take(pa.array(origin)),
            identity=shown(play.images[0].message.identity),
            messages=sum(letters.values()),
            records=sum(times.values()),
            hops=sendings,
            nodes=_distinct(one.nodes[:, sorted({play.steps[step].role for step in steps})]),
            answers=fate.answers if answered else 0,
            start_ts=self._moments(starts),
            end_ts=self._moments(ends),
            duration_us=ends - starts,
        )

    def _add_callbacks(self, one: Performance) -> None:
        play, fate = one.cell.play, one.cell.play.fate
        request = play.images[0].message
        asked = [
            step
            for step in one.cell.recorded
            if play.steps[step].role == 0 and is_of_request(play.steps[step], play.images)
        ]
        asked_at = _extreme([one.clock(step) for step in asked], np.minimum) if asked else None
        answered = fate.answered_at in one.cell.sites
        outcome = fate.callback
        if fate.answer is not None and not answered:  # it came, and no record says so
            outcome = "expired" if play.lifetime is not Lifetime.UNLIMITED else "unanswered"
        answered_at = one.clock(fate.answered_at) if answered else None
        nameless = play.wire_format is WireFormat.FIRST
        askers = one.nodes[:, 0]
        self._write(
            "callbacks",
            one.count,
            flow_id=_texts(one.correlations),
            asked_node="" if nameless else self._names.take(pa.array(askers)),
            asked_receiver=self._hubs.take(pa.array(askers)),
            callback_key=0 if nameless else one.keys,
            identity=shown(request.identity),
            outcome=outcome,
            answer_identity=shown(fate.answer.identity) if fate.answer is not None and answered else None,
            asked_ts=None if asked_at is None else self._moments(asked_at),
            answered_ts=None if answered_at is None else self._moments(answered_at),
            latency_us=None if asked_at is None or answered_at is None else answered_at - asked_at,
        )

    def _count_transits(self, one: Performance) -> None:
        size = self._topology.nodes
        for number in one.cell.recorded:
            step = one.cell.play.steps[number]
            if step.code or step.is_dropped or step.peer == NOBODY:
                continue
            repeats = one.rows(number) // max(one.count, 1)
            pairs = one.nodes[:, step.peer] * size + one.nodes[:, step.role]
            counted = repeats * np.bincount(pairs, minlength=size * size).reshape(size, size)
            self._pairs[step.arrival] += counted.T if step.event is Event.SENT else counted
            if step.verdict:
                domain = one.cell.play.images[step.image].message.domain
                if play_format_has_no_domain(one.cell):
                    domain = ""
                key = domain, step.verdict
                self._verdicts[key] = self._verdicts.get(key, 0) + counted  # type: ignore[operator]

    # -- records -------------------------------------------------------------------------------------------------------

    def add_written(self, written: Written) -> None:
        """Take records as they were numbered."""
        marked = np.flatnonzero(self._stage.is_marked[written.site])
        self._add_faults(written, marked)
        self._add_dropped(written)
        self._add_incidents(written, np.flatnonzero(self._lookups.is_incident[written.site]))
        rejects = np.flatnonzero(self._stage.is_reject[written.site])
        if len(rejects):
            self._write(
                "rejects",
                len(rejects),
                **self._place(written, rejects),
                event=self._lookups.text("event", written.site[rejects]),
                code=self._lookups.text("code", written.site[rejects]),
            )
        self._count_events(written)

    def _add_faults(self, written: Written, rows: npt.NDArray[np.intp]) -> None:
        if not len(rows):
            return
        site = written.site[rows]
        faults = self._lookups.text("fault", site)
        self._write(
            "faults",
            len(rows),
            fault=faults,
            kind=self._lookups.text("kind", site),
            **self._place(written, rows),
            peer=self._peers(written, rows),
            flow_id=self._flow_ids(written, rows),
            identity=self._lookups.text("identity", site),
        )
        for fault, count in zip(*np.unique(np.asarray(faults), return_counts=True), strict=True):
            self._count(f"fault.{fault}", int(count))

    def _add_dropped(self, written: Written) -> None:
        rows = np.flatnonzero(written.dropped)
        if len(rows):
            kinds = pa.array([str(count) for count in written.dropped[rows]], _TEXT)
            self._write("faults", len(rows), fault="dropped", kind=kinds, **self._place(written, rows))
            self._count("fault.dropped", len(rows))

    def _add_incidents(self, written: Written, rows: npt.NDArray[np.intp]) -> None:
        if len(rows):
            site = written.site[rows]
            self._write(
                "incidents",
                len(rows),
                **self._place(written, rows),
                peer=self._peers(written, rows),
                offence=self._lookups.text("verdict", site),
                domain=self._lookups.text("domain", site),
                flow_id=self._flow_ids(written, rows),
                identity=self._lookups.text("identity", site),
            )

    def _place(self, written: Written, rows: npt.NDArray[np.intp]) -> dict[str, Any]:
        return {
            "node": self._names[written.node].as_py(),
            "seq": written.seq[rows],
            "ts": pa.array(written.ts[rows]).cast(_TIME),
        }

    def _peers(self, written: Written, rows: npt.NDArray[np.intp]) -> pa.Array:
        peers = written.peer[rows]
        return self._names.take(pa.array(peers, mask=peers == NOBODY))

    def _flow_ids(self, written: Written, rows: npt.NDArray[np.intp]) -> pa.Array:
        texts = _texts(guids(self._seed, written.flow[rows]))
        return texts.take(pa.array(np.arange(len(rows)), mask=~self._lookups.is_flow[written.site[rows]]))

    def _count_events(self, written: Written) -> None:
        hours = written.ts // _HOUR_US
        for hour in np.unique(hours).tolist():
            rows = hours == hour
            site = written.site[rows]
            events = np.bincount(self._stage.events[site], minlength=len(EVENTS))
            broadcasts = np.bincount(self._stage.events[site[self._stage.is_broadcast[site]]], minlength=len(EVENTS))
            outcomes = sum(
                int(broadcasts[at]) for at, event in enumerate(EVENTS) if event in ("delivered", "sent", *ENDINGS)
            )
            came_in = sum(int(broadcasts[at]) for at, event in enumerate(EVENTS) if event in ("submitted", "received"))
            counted = np.array(
                [
                    len(site),
                    written.dropped[rows].sum(),
                    self._stage.is_reject[site].sum(),
                    *events,
                    max(0, outcomes - came_in) if self._stage.level is Level.FULL else 0,
                ]
            )
            key = written.node, hour
            self._audit[key] = self._audit.get(key, np.zeros_like(counted)) + counted
        self._count("records", len(written.site))
        self._count("rejects", int(self._stage.is_reject[written.site].sum()))
        self._count("dropped", int(written.dropped.sum()))

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what was counted, and close the files."""
        names = self._topology.names()
        for (node, hour), counted in sorted(self._audit.items()):
            values = dict(zip(SCHEMAS["audit"].names[2:], counted.tolist(), strict=True))
            self._write("audit", 1, node=names[node], hour=pa.array([hour * _HOUR_US]).cast(_TIME), **values)
        seen = sum(self._pairs.values(), np.zeros_like(self._pairs[Arrival.NONE]))
        for source, target in zip(*(axis.tolist() for axis in np.nonzero(seen)), strict=True):
            pair = {arrival: int(counts[source, target]) for arrival, counts in self._pairs.items()}
            self._write(
                "hops",
                1,
                from_node=names[source],
                to_node=names[target],
                sent=pair[Arrival.ARRIVED] + pair[Arrival.LOST] + pair[Arrival.UNWATCHED],
                received=pair[Arrival.MATCHED] + pair[Arrival.DUPLICATE] + pair[Arrival.UNSENT],
                lost=pair[Arrival.LOST],
                duplicates=pair[Arrival.DUPLICATE],
                unwatched=pair[Arrival.UNWATCHED],
                unsent=pair[Arrival.UNSENT],
            )
        for (domain, verdict), counts in sorted(self._verdicts.items()):
            for peer, node in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True):
                total = int(counts[peer, node])
                self._write(
                    "security", 1, node=names[node], peer=names[peer], domain=domain, verdict=verdict, count=total
                )
        for node, name in enumerate(names):
            self._write(
                "skew",
                1,
                node=name,
                uri=self._topology.uris[node].tobytes().decode(),
                offset_us=int(self._topology.skews[node]),
                captured=node < self._topology.captured,
            )
        for writer in self._writers.values():
            writer.close()

    def _write(self, table: str, rows: int, /, **columns: Any) -> None:
        """Write rows; a single value is that of all of them, and what is not given is null."""
        arrays = []
        for field in SCHEMAS[table]:
            value = columns.get(field.name)
            if value is None:
                arrays.append(pa.nulls(rows, field.type))
            elif isinstance(value, (pa.Array, np.ndarray)):
                arrays.append(pa.array(value) if isinstance(value, np.ndarray) else value)
            else:
                arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
        self._writers[table].write_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[table]))
        self._count(table, rows)

    def _count(self, what: str, count: int) -> None:
        self.totals[what] = self.totals.get(what, 0) + count

    def _moments(self, times: Numbers) -> pa.Array:
        return pa.array(times + self._start).cast(_TIME)


class _Lookups:
    """What is the same for all records of a site, by site."""

    def __init__(self, stage: Stage) -> None:
        steps, cells = stage.site_steps, stage.site_cells
        messages = [stage.message_of(site) for site in range(len(steps))]
        domains = [
            "" if play_format_has_no_domain(cell) else one.domain for cell, one in zip(cells, messages, strict=True)
        ]
        self._texts: Mapping[str, npt.NDArray[np.object_]] = {
            "fault": np.array([step.mark[0] for step in steps], object),
            "kind": np.array([step.mark[1] for step in steps], object),
            "event": np.array([str(step.event) for step in steps], object),
            "code": np.array([step.code for step in steps], object),
            "verdict": np.array([step.verdict for step in steps], object),
            "identity": np.array([shown(one.identity) for one in messages], object),
            "domain": np.array(domains, object),
        }
        self.is_flow = np.array(
            [cell.play.is_flow and not step.code for cell, step in zip(cells, steps, strict=True)], bool
        )
        self.is_incident = np.array([step.verdict in OFFENCES or step.mark[0] == "unsigned" for step in steps], bool)

    def text(self, what: str, site: npt.NDArray[np.int32]) -> pa.Array:
        return pa.array(self._texts[what][site], _TEXT)


def roots_of(cell: Cell) -> list[int]:
    """Give the steps that show how a flow began; none where no record does."""
    play = cell.play
    at_first = [step for step in cell.recorded if play.steps[step].role == 0 and not play.steps[step].is_offence]
    if 0 in cell.recorded:
        return [0]
    if play.fate.callback and play.wire_format is WireFormat.FIRST:
        return []  # which does not say that its sender is the one who asked
    return [
        step
        for step in at_first
        if play.steps[step].event is Event.SENT
        and play.images[play.steps[step].image].message.hops == 1
        and play.images[play.steps[step].image].letter == 0
    ]


def is_of_request(step: Step, images: list[Any]) -> bool:
    """Tell whether a step shows the first message of its flow."""
    return bool(images[step.image].letter == 0)


def counts_as_hop(step: Step) -> bool:
    """Tell whether a step is a transit of its own: a sending, or an arrival whose sending nobody saw."""
    return step.event is Event.SENT or step.arrival is Arrival.UNSENT


def play_format_has_no_domain(cell: Cell) -> bool:
    """Tell whether the format leaves out the domain."""
    return cell.play.wire_format is WireFormat.FIRST


def _extreme(times: list[Numbers], of: np.ufunc) -> Numbers:
    """Give the first or last moment of each flow."""
    found: Numbers = times[0] if len({len(one) for one in times}) == 1 else times[0].reshape(1, -1).min(axis=1)
    for one in times:
        found = of(found, one if len(one) == len(found) else np.array([of.reduce(one)]))
    return found


def _distinct(nodes: Numbers) -> Numbers:
    ordered = np.sort(nodes, axis=1)
    return 1 + (np.diff(ordered, axis=1) != 0).sum(axis=1)


def _texts(rows: Octets) -> pa.Array:
    width = rows.shape[1]
    ends = np.arange(len(rows) + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(rows)))
