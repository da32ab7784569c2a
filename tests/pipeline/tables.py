"""The tables that some messages give, made the way the job makes them."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hopline.pipeline.tables import audit as _audit
from hopline.pipeline.tables import by_flow as _by_flow
from hopline.pipeline.tables import callbacks as _callbacks
from hopline.pipeline.tables import edges as _edges
from hopline.pipeline.tables import flows as _flows
from hopline.pipeline.tables import handlers as _handlers
from hopline.pipeline.tables import hops as _hops
from hopline.pipeline.tables import journeys as _journeys
from hopline.pipeline.tables import nesting as _nesting
from hopline.pipeline.tables import skew as _skew
from hopline.pipeline.tables import transits as _transits
from hopline.pipeline.windows import WINDOW_S, last_seen


def transits(messages: DataFrame) -> DataFrame:
    return _transits.transits(_by_flow.by_flow(messages))


def skew(messages: DataFrame) -> DataFrame:
    return _skew.skew(transits(messages))


def hops(messages: DataFrame, skew: DataFrame | None = None) -> DataFrame:
    matched = transits(messages)
    return _hops.hops(matched, _skew.skew(matched) if skew is None else skew, last_seen(messages))


def callbacks(messages: DataFrame) -> DataFrame:
    return _callbacks.callbacks(_by_flow.by_flow(messages), last_seen(messages))


def flows(messages: DataFrame, skew: DataFrame | None = None) -> DataFrame:
    return flows_and_journeys(messages, skew)[0]


def flows_and_journeys(messages: DataFrame, skew: DataFrame | None = None) -> tuple[DataFrame, DataFrame]:
    records = _by_flow.by_flow(messages).cache()
    matched = _transits.transits(records)
    offsets = _skew.skew(matched) if skew is None else skew
    crossed = _hops.hops(matched, offsets, last_seen(messages))
    walked = _flows.walked(records, offsets).cache()
    nesting = _nesting.nesting(walked, records)
    made = _flows.flows(records, walked, nesting, callbacks(messages), crossed).localCheckpoint()
    return made, _journeys.journeys(made, nesting, records)


def handlers(messages: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    return _handlers.handlers(_handlers.runs(_by_flow.by_flow(messages)), window_s)


def edges(messages: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    crossings = _edges.crossings(hops(messages), _by_flow.by_flow(messages))
    return _edges.edges(crossings, window_s)


def audit(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    counts, stretches = _audit.counts(messages, rejects), _audit.stretches(messages, rejects)
    return _audit.audit(counts, stretches, _audit.balances(messages))
