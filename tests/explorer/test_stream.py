"""The pages follow tables that a stream writes: they show each batch, how old it is, and which rows it may replace.

The files are moved to their places as a stream moves them. `tests/pipeline/stream` has the pages of a real one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hopline.explorer import live_tables
from hopline.explorer.freshness import freshness_text, last_state
from hopline.explorer.live_tables import LiveTables, Snapshot
from hopline.pipeline.stream.state import NodeState, State
from tests.explorer.conftest import Opening
from tests.explorer.planted import SHOP, STOCK, write_planted
from tests.explorer.test_pages import text_of
from tests.query.written import DAY, NOON, flow, write_table

NOW = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC).timestamp()
_file_numbers = count()


@pytest.fixture(autouse=True)
def _list_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tables, "LISTED_EVERY_SECONDS", 0.0)


def state(batch: int = 7, written_s: float = NOW - 30, **more: Any) -> State:
    last_us = round((NOW - 40) * 1_000_000)
    return State(
        batch=batch, written_s=written_s, nodes={SHOP: NodeState(heard_s=NOW, first_us=1, last_us=last_us)}, **more
    )


def commit(tables: Path, left: State) -> None:
    """Write what a batch leaves to the next one."""
    document = tables / f"_stream/state/{left.batch:09}/state.json"
    document.parent.mkdir(parents=True)
    document.write_bytes(msgspec.json.encode(left))


def publish(tables: Path, aside: Path, table: str, rows: Sequence[Mapping[str, Any]], folder: str) -> None:
    """Write rows aside, and let them take the place of what the folder has had."""
    shutil.rmtree(aside, ignore_errors=True)
    write_table(aside, table, rows)
    staged = aside / table / f"date={DAY}"
    (staged / "part-0.parquet").rename(staged / f"part-{next(_file_numbers)}.parquet")
    place = tables / table / f"date={DAY}" / folder
    shutil.rmtree(place, ignore_errors=True)
    staged.rename(place)


def audit_row(records: int, *, provisional: bool) -> dict[str, Any]:
    row = {"node": "checkout", "hour": NOON, "records": records, "dropped": 0, "missing": 0, "balance": 0}
    return row | {"balanced": True, "provisional": provisional}


def test_a_batch_is_on_the_page_when_it_is_whole_with_its_age_and_its_provisional_rows(
    tmp_path: Path, opening: Opening
) -> None:
    tables, aside = write_planted(tmp_path / "tables"), tmp_path / "aside"
    client = opening(tables)
    assert client.get("/state").json()["freshness"] == ""
    assert 'id="fresh" hidden' in client.get("/").text

    publish(tables, aside, "audit", [audit_row(41, provisional=True)], "stream-provisional")
    publish(tables, aside, "flows", [flow("of-batch-0", "failed", 5)], "stream-000000000")
    commit(tables, state(batch=0, written_s=time.time() - 10, pending_units=3))
    assert "Stream: last whole batch began 10 s ago" in text_of(client, "/")
    assert "3 flows still open" in text_of(client, "/topology")
    assert "of-batch-0" in text_of(client, "/search")
    assert "provisional checkout yes" in text_of(client, "/audit")
    before = client.get("/state").json()

    publish(tables, aside, "audit", [audit_row(52, provisional=False)], "stream-000000001")
    shutil.rmtree(tables / f"audit/date={DAY}/stream-provisional")
    publish(tables, aside, "flows", [flow("of-batch-1", "failed", 5)], "stream-000000001")
    commit(tables, state(batch=1, written_s=time.time() - 1))
    after = client.get("/state").json()
    assert after["state"] != before["state"]
    assert "began 1 s ago" in after["freshness"]
    assert "of-batch-1" in text_of(client, "/search")
    audited = text_of(client, "/audit")
    assert "52" in audited
    assert "provisional" not in audited


def test_provisional_rows_are_marked_where_they_are_shown_or_counted(tmp_path: Path, opening: Opening) -> None:
    marks = {"provisional": True}
    edge = {"kind": "physical", "source": SHOP, "source_node": SHOP, "target": STOCK, "target_node": STOCK, "count": 40}
    handler = {"node": STOCK, "actor_name": "Stock", "handler": "reserve", "identity": "ORDER", "count": 40}
    pair = {"node_a": SHOP, "node_b": STOCK, "offset_us": 5, "bound_us": 1}
    tables = write_planted(
        tmp_path / "tables",
        edges=[edge | {"window_s": 60} | marks],
        handlers=[handler | {"window_s": 60} | marks],
        skew=[pair | marks],
        flows=[flow("of-today", "failed", 5) | {"journey_id": "of-today"} | marks],
        journeys=[],
    )
    client = opening(tables)
    for page in ("/", "/topology", "/clocks", "/journey?id=of-today", "/rows/flows", "/rows/handlers"):
        assert '<span class="badge provisional"' in client.get(page).text, page
    plain = opening(write_planted(tmp_path / "of-a-run"))
    for page in ("/", "/topology", "/clocks", "/audit", "/rows/handlers"):
        assert '<span class="badge provisional"' not in plain.get(page).text, page


@pytest.mark.parametrize("replaced", [1, 4])
def test_a_page_is_made_again_as_long_as_a_stream_replaces_its_files_meanwhile(tmp_path: Path, replaced: int) -> None:
    tables, aside = write_planted(tmp_path / "tables"), tmp_path / "aside"
    live = LiveTables(tables)
    made: list[str] = []

    def page(snapshot: Snapshot) -> int:
        snapshot.tables.files("audit")
        made.append(snapshot.state)
        if len(made) <= replaced:
            publish(tables, aside, "audit", [audit_row(len(made), provisional=True)], "stream-provisional")
        rows = snapshot.tables.ask("select max(records) from audit where provisional").fetch()
        return int(rows[0][0])

    publish(tables, aside, "audit", [audit_row(0, provisional=True)], "stream-provisional")
    assert live.read(page) == replaced
    assert len(set(made)) == replaced + 1
    live.close()


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (None, ""),
        (State(batch=0, written_s=NOW - 1), "Stream: last whole batch began 1 s ago"),
        (state(), "Stream: last whole batch began 30 s ago, newest message 11:59:50"),
        (state(pending_units=1), "Stream: last whole batch began 30 s ago, newest message 11:59:50, 1 flow still open"),
        (state(written_s=NOW - 300), "Stream: last whole batch began 5 min ago, newest message 11:59:50"),
        (state(written_s=NOW + 5), "Stream: last whole batch began 0 s ago, newest message 11:59:50"),
    ],
)
def test_the_age_is_that_of_the_last_whole_batch(left: State | None, text: str) -> None:
    assert freshness_text(left, NOW) == text


def test_what_was_followed_days_ago_has_a_day() -> None:
    text = "Stream: last whole batch began 3 days ago, newest message 2026-01-31 11:59"
    assert freshness_text(state(), NOW + 3 * 86_400) == text


def test_a_batch_that_is_not_whole_does_not_count(tmp_path: Path) -> None:
    assert last_state(tmp_path) is None
    commit(tmp_path, state(batch=8))
    commit(tmp_path, state(batch=9))
    (tmp_path / "_stream/state/000000010/pending").mkdir(parents=True)
    assert last_state(tmp_path) == state(batch=9)
    (tmp_path / "_stream/state/000000009/state.json").write_text('{"batch":')
    assert last_state(tmp_path) == state(batch=8)
