"""What is true of the captures, told from what was planted. Nothing here looks at frames or matches records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import ENDINGS, Event, Level, shown
from hopline.generator.draws import Numbers, Octets, guids
from hopline.generator.performance import Performance
from hopline.generator.script import NOBODY, Arrival, Lifetime
from hopline.generator.stage import EVENTS, Stage
from hopline.generator.tables import SCHEMAS, TIME, TableFiles
from hopline.generator.tape import Written
from hopline.generator.told import (
    SiteTexts,
    asked_at,
    counts_as_hop,
    firsts_of,
    is_question_seen,
    is_stitched,
    leaves_of,
    of_the_flow,
    outcomes_of,
    roots_of,
)
from hopline.generator.topology import Topology
from hopline.message import WireFormat

_HOUR_US = 3_600_000_000
_SEVERITIES = ("complete", "orphan", "truncated", "unanswered", "expired", "failed")
_CAME_IN = np.array([event in (Event.SUBMITTED, Event.RECEIVED) for event in EVENTS])
_OUTCOMES = np.array([event in (Event.DELIVERED, Event.SENT, *ENDINGS) for event in EVENTS])


class Truth:
    """Collects the tables. Rows of flows are written as they come; what is counted, at the end."""

    def __init__(self, directory: Path, stage: Stage, topology: Topology, seed: int, start: int) -> None:
        self._tables = TableFiles(directory)
        self._stage = stage
        self._topology = topology
        self._seed = seed
        self._start = start
        self._names = pa.array(topology.names(), pa.string())
        self._hubs = pa.array([shown(row.tobytes()) for row in topology.hubs], pa.string())
        size = topology.nodes
        self._pairs = {arrival: np.zeros((size, size), np.int64) for arrival in Arrival}
        self._verdicts: dict[tuple[str, str], Numbers] = {}
        self._audit: dict[tuple[int, int], Numbers] = {}
        self._sites = SiteTexts(stage)
        self.totals: dict[str, int] = {}

    # -- flows and callbacks -------------------------------------------------------------------------------------------

    def add(self, one: Performance) -> None:
        """Take what some flows of one kind are like."""
        self._count_transits(one)
        if is_stitched(one.cell):
            self._add_flows(one, of_the_flow(one.cell))
            if one.cell.play.fate.callback and is_question_seen(one.cell):
                self._add_callbacks(one)

    def _add_flows(self, one: Performance, steps: list[int]) -> None:
        play, fate = one.cell.play, one.cell.play.fate
        roots = roots_of(one.cell)
        starts = _extreme([one.clock(step) for step in roots or firsts_of(one.cell)], np.minimum)
        answered = fate.answered_at in one.cell.sites
        ends = (
            one.clock(fate.answered_at)
            if answered
            else _extreme([one.clock(step) for step in leaves_of(one.cell)], np.maximum)
        )
        origin = one.nodes[:, play.steps[0].role] if roots else None
        outcome = outcomes_of(one.cell)[0] if roots else "orphan"
        parent, first = one.seen_parent, one
        while (before := first.seen_parent) is not None:
            first = before
        times = {step: one.rows(step) // one.count for step in steps}
        letters = {play.images[play.steps[step].image].letter: times[step] for step in steps}
        sendings = sum(times[step] for step in steps if counts_as_hop(play.steps[step]))
        self._tables.add(
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
            answers=fate.answers + (one.setting.items if play.repeated else 0) if answered else 0,
            start_ts=self._moments(starts),
            end_ts=self._moments(ends),
            duration_us=ends - starts,
            parent_flow_id=None if parent is None else _texts(parent.correlations),
            journey_id=_texts(first.correlations),
        )
        if parent is None and not all(nested.seen_parent is None for nested in one.nested):
            self._add_journeys(one)

    def _add_journeys(self, one: Performance) -> None:
        outcomes = [outcomes_of(each.cell)[0] for each in one.everything]
        self._tables.add(
            "journeys",
            one.count,
            journey_id=_texts(one.correlations),
            flows=len(outcomes),
            depth=one.depth,
            outcome=max(outcomes, key=_SEVERITIES.index),
        )

    def _add_callbacks(self, one: Performance) -> None:
        play, fate = one.cell.play, one.cell.play.fate
        request = play.images[0].message
        asked = [one.clock(step) for step in asked_at(one.cell)]
        question = _extreme(asked, np.minimum) if asked else None
        answered = fate.answered_at in one.cell.sites
        outcome = outcomes_of(one.cell)[1]
        if fate.answer is not None and not answered:  # it came, and no record says so
            outcome = "expired" if play.lifetime is not Lifetime.UNLIMITED else "unanswered"
        answer = one.clock(fate.answered_at) if answered else None
        nameless = play.wire_format is WireFormat.FIRST
        askers = one.nodes[:, 0]
        self._tables.add(
            "callbacks",
            one.count,
            flow_id=_texts(one.correlations),
            asked_node=self._names.take(pa.array(askers)),
            asked_receiver=self._hubs.take(pa.array(askers)),
            callback_key=0 if nameless else one.keys,
            identity=shown(request.identity),
            outcome=outcome,
            answer_identity=shown(fate.answer.identity) if fate.answer is not None and answered else None,
            asked_ts=None if question is None else self._moments(question),
            answered_ts=None if answer is None else self._moments(answer),
            latency_us=None if question is None or answer is None else answer - question,
        )

    def _count_transits(self, one: Performance) -> None:
        size = self._topology.nodes
        for number in one.cell.recorded:
            step = one.cell.play.steps[number]
            if step.code or step.is_dropped or step.peer == NOBODY:
                continue
            repeats = one.rows(number) // one.count
            pairs = one.nodes[:, step.peer] * size + one.nodes[:, step.role]
            counted = repeats * np.bincount(pairs, minlength=size * size).reshape(size, size)
            self._pairs[step.arrival] += counted.T if step.event is Event.SENT else counted
            if step.verdict:
                key = one.cell.play.images[step.image].message.domain, step.verdict
                self._verdicts[key] = self._verdicts.get(key, 0) + counted

    # -- records -------------------------------------------------------------------------------------------------------

    def add_written(self, written: Written) -> None:
        """Take records as they were numbered."""
        marked = np.flatnonzero(self._stage.is_marked[written.site])
        self._add_faults(written, marked)
        self._add_dropped(written)
        self._add_incidents(written, np.flatnonzero(self._sites.is_incident[written.site]))
        rejects = np.flatnonzero(self._stage.is_reject[written.site])
        if len(rejects):
            self._tables.add(
                "rejects",
                len(rejects),
                **self._place(written, rejects),
                event=self._sites.text("event", written.site[rejects]),
                code=self._sites.text("code", written.site[rejects]),
            )
        self._count_events(written)

    def _add_faults(self, written: Written, rows: npt.NDArray[np.intp]) -> None:
        if not len(rows):
            return
        site = written.site[rows]
        faults = self._sites.text("fault", site)
        self._tables.add(
            "faults",
            len(rows),
            **{"class": faults},
            kind=self._sites.text("kind", site),
            **self._place(written, rows),
            peer=self._peers(written, rows),
            flow_id=self._flow_ids(written, rows),
            identity=self._sites.text("identity", site),
        )
        for fault, count in zip(*np.unique(np.asarray(faults), return_counts=True), strict=True):
            self._count(f"fault.{fault}", int(count))

    def _add_dropped(self, written: Written) -> None:
        rows = np.flatnonzero(written.dropped)
        if len(rows):
            kinds = pa.array([str(count) for count in written.dropped[rows]], pa.string())
            self._tables.add("faults", len(rows), **{"class": "dropped"}, kind=kinds, **self._place(written, rows))
            self._count("fault.dropped", len(rows))

    def _add_incidents(self, written: Written, rows: npt.NDArray[np.intp]) -> None:
        if len(rows):
            site = written.site[rows]
            self._tables.add(
                "incidents",
                len(rows),
                **self._place(written, rows),
                peer=self._peers(written, rows),
                offence=self._sites.text("verdict", site),
                domain=self._sites.text("domain", site),
                flow_id=self._flow_ids(written, rows),
                identity=self._sites.text("identity", site),
            )

    def _place(self, written: Written, rows: npt.NDArray[np.intp]) -> dict[str, Any]:
        return {
            "node": self._names[written.node].as_py(),
            "seq": written.seq[rows],
            "ts": pa.array(written.ts[rows]).cast(TIME),
        }

    def _peers(self, written: Written, rows: npt.NDArray[np.intp]) -> pa.Array:
        peers = written.peer[rows]
        return self._names.take(pa.array(peers, mask=peers == NOBODY))

    def _flow_ids(self, written: Written, rows: npt.NDArray[np.intp]) -> pa.Array:
        texts = _texts(guids(self._seed, written.flow[rows]))
        return texts.take(pa.array(np.arange(len(rows)), mask=~self._sites.is_flow[written.site[rows]]))

    def _count_events(self, written: Written) -> None:
        hours = written.ts // _HOUR_US
        for hour in np.unique(hours).tolist():
            rows = hours == hour
            site = written.site[rows]
            events = np.bincount(self._stage.events[site], minlength=len(EVENTS))
            broadcasts = np.bincount(self._stage.events[site[self._stage.is_broadcast[site]]], minlength=len(EVENTS))
            # On the wire alone, who sends a broadcast is not seen to get it, nor who gets it to do anything with it.
            came_in = broadcasts[_CAME_IN].sum() if self._stage.level is Level.FULL else 0
            copies = int(broadcasts[_OUTCOMES].sum() - came_in)
            counted = np.array(
                [
                    len(site),
                    written.dropped[rows].sum(),
                    self._stage.is_reject[site].sum(),
                    *events,
                    copies,
                ]
            )
            key = written.node, hour
            self._audit[key] = self._audit.get(key, np.zeros_like(counted)) + counted
        self._count("records", len(written.site))
        self._count("rejects", int(self._stage.is_reject[written.site].sum()))
        self._count("dropped", int(written.dropped.sum()))

    def flush(self) -> None:
        """Write the rows so far."""
        self._tables.flush()

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what was counted, and close the files."""
        names = self._topology.names()
        for (node, hour), counted in sorted(self._audit.items()):
            values = dict(zip(SCHEMAS["audit"].names[2:], counted.tolist(), strict=True))
            self._tables.add("audit", 1, node=names[node], hour=pa.array([hour * _HOUR_US]).cast(TIME), **values)
        seen = sum(self._pairs.values(), np.zeros_like(self._pairs[Arrival.NONE]))
        for source, target in zip(*(axis.tolist() for axis in np.nonzero(seen)), strict=True):
            pair = {arrival: int(counts[source, target]) for arrival, counts in self._pairs.items()}
            self._tables.add(
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
                self._tables.add(
                    "security", 1, node=names[node], peer=names[peer], domain=domain, verdict=verdict, count=total
                )
        for node, name in enumerate(names):
            self._tables.add(
                "skew",
                1,
                node=name,
                uri=self._topology.uris[node].tobytes().decode(),
                offset_us=int(self._topology.skews[node]),
                captured=node < self._topology.captured,
            )
        self._tables.close()
        self.totals |= self._tables.rows

    def _count(self, what: str, count: int) -> None:
        self.totals[what] = self.totals.get(what, 0) + count

    def _moments(self, times: Numbers) -> pa.Array:
        return pa.array(times + self._start).cast(TIME)


def _extreme(times: list[Numbers], of: np.ufunc) -> Numbers:
    """Give the first or last moment of each flow."""
    flows = min(len(one) for one in times)  # of a huge flow some steps happen very often
    alike = [one if len(one) == flows else np.asarray([of.reduce(one)]) for one in times]
    found: Numbers = of.reduce(np.stack(alike))
    return found


def _distinct(nodes: Numbers) -> Numbers:
    ordered = np.sort(nodes, axis=1)
    changes: Numbers = (np.diff(ordered, axis=1) != 0).sum(axis=1)
    return 1 + changes


def _texts(rows: Octets) -> pa.Array:
    width = rows.shape[1]
    ends = np.arange(len(rows) + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(rows)))
