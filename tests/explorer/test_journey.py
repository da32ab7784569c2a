"""One journey: its timeline, its sequence diagram, its records."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from hopline.explorer.drawings.clock_alignment import Alignment
from hopline.explorer.drawings.sequence import sequence
from hopline.explorer.drawings.timeline import Timeline, flow_levels, timeline
from hopline.explorer.live_tables import LiveTables
from hopline.explorer.questions.journey import Journey, Several, journey
from tests.explorer.asking import Client
from tests.explorer.conftest import Opening
from tests.explorer.planted import LOST_FLOW, ORDER_FLOW, PRICE_FLOW, PRICES, RECORDS, SHOP, STOCK, write_planted
from tests.explorer.test_pages import rows_of, text_of


@pytest.fixture(scope="module")
def planted(planted_tables: Path) -> Journey:
    return _journey(planted_tables, ORDER_FLOW)


def _journey(tables: Path, flow: str) -> Journey:
    live = LiveTables(tables)
    try:
        seen = live.read(lambda snapshot: journey(snapshot.tables, flow))
    finally:
        live.close()
    assert isinstance(seen, Journey)
    return seen


def _lines(drawn: Timeline) -> list[tuple[str, str, int, bool]]:
    return [(bar.span.kind, bar.span.label, bar.span.end - bar.span.start, bar.span.is_critical) for bar in drawn.bars]


def test_the_timeline_shows_who_waited_ran_and_travelled_in_order(planted: Journey) -> None:
    drawn = timeline(planted, Alignment(planted.clocks))
    assert _lines(drawn) == [
        ("flow", "ORDER", 10_800, True),
        ("transit", "ORDER", 500, True),
        ("wait", "Stock.reserve", 1_000, True),
        ("run", "Stock.reserve", 8_400, True),
        ("transit", "ORDERED", 500, True),
        ("wait", "hub", 200, False),
        ("flow", "PRICE", 6_900, True),
        ("transit", "PRICE", 400, True),
        ("wait", "Price.quote", 500, True),
        ("run", "Price.quote", 5_100, True),
        ("transit", "PRICED", 500, True),
        ("wait", "hub", 200, False),
    ]
    assert [bar.y for bar in drawn.bars] == sorted(bar.y for bar in drawn.bars)
    inside = [bar for bar in drawn.bars if bar.span.flow_id == PRICE_FLOW]
    assert all(bar.span.level > 0 for bar in inside), "the flow that was asked stands below the one that asked"


def test_on_aligned_clocks_the_critical_path_goes_on_from_stage_to_stage(planted: Journey) -> None:
    drawn = timeline(planted, Alignment(planted.clocks))
    ends = [stage.x + stage.width for stage in drawn.stages]
    starts = [stage.x for stage in drawn.stages]
    assert starts == sorted(starts)
    assert all(start == pytest.approx(end, abs=2.0) for end, start in zip(ends, starts[1:], strict=False))
    as_recorded = timeline(planted, Alignment({}))
    assert max(bar.width for bar in as_recorded.bars if bar.span.kind == "transit") > 500, "the clocks differ by 2 s"


def test_clocks_come_from_the_pairs_with_the_smallest_bounds(planted: Journey) -> None:
    assert planted.clocks[STOCK].offset_us == 2_000_000
    assert planted.clocks[PRICES].offset_us == 0
    assert planted.clocks[PRICES].bound_us == 50
    assert planted.clocks[SHOP].offset_us == 0


def test_the_sequence_diagram_has_a_lifeline_a_participant_and_an_arrow_a_message(planted: Journey) -> None:
    drawn = sequence(planted, Alignment(planted.clocks))
    assert [(line.title, line.node) for line in drawn.lifelines] == [
        ("hub", SHOP),
        ("Stock", STOCK),
        ("hub", STOCK),
        ("Price", PRICES),
    ]
    assert [(arrow.identity, arrow.took) for arrow in drawn.arrows] == [
        ("ORDER", "1.6 ms"),
        ("PRICE", "1 ms"),
        ("PRICED", "900 µs"),
        ("ORDERED", "900 µs"),
    ]
    assert drawn.arrows[0].direction == 1
    assert drawn.arrows[-1].direction == -1


def test_what_the_last_participant_sends_to_itself_has_room_beside_it(planted: Journey) -> None:
    mine = [record | {"node": SHOP, "local_receiver": "\0hub"} for record in planted.records if not record["peer"]]
    drawn = sequence(replace(planted, records=mine[:2], hops=[]), Alignment({}))
    own = [arrow for arrow in drawn.arrows if arrow.is_own]
    assert own
    assert all(drawn.width - arrow.from_x > 150 for arrow in own)


def test_the_legend_names_what_the_critical_path_has(client: Client) -> None:
    said = text_of(client, f"/journey?id={ORDER_FLOW}")
    assert "waited to be sent" in said
    assert "waited in vain" not in said


def test_a_message_that_was_lost_ends_at_a_cross(planted_tables: Path, client: Client) -> None:
    drawn = sequence(_journey(planted_tables, LOST_FLOW), Alignment({}))
    (arrow,) = drawn.arrows
    assert arrow.problem == "lost"
    assert "lost" in text_of(client, f"/journey?id={LOST_FLOW}")


def test_flows_whose_parents_go_in_a_circle_are_all_drawn() -> None:
    flows = [{"flow_id": "a", "parent_flow_id": "b"}, {"flow_id": "b", "parent_flow_id": "a"}]
    assert set(flow_levels(flows)) == {"a", "b"}
    assert flow_levels([{"flow_id": "a", "parent_flow_id": "a"}]) == {"a": 0}


def test_the_page_has_hops_with_skew_and_its_bound_and_every_record_in_order(client: Client) -> None:
    rows = rows_of(client, f"/journey?id={ORDER_FLOW}")
    assert [
        SHOP[:8],
        STOCK[:8],
        "ORDER",
        "12:00:00.000100",
        "12:00:02.000600",
        "2 s",
        "2 s",
        "100 µs",
        "500 µs",
        "",
    ] in rows
    records = [row for row in rows if len(row) == 8 and row[2].isdigit()]
    happened = [record for record in RECORDS if record["flow_id"] in (ORDER_FLOW, PRICE_FLOW)]
    assert _records(records) == [(one["node"][:8], str(one["seq"]), one["event"]) for one in happened]
    by_each_clock = sorted(happened, key=lambda one: one["ts"])
    assert by_each_clock != happened, "the clocks differ by 2 s"
    as_recorded = rows_of(client, f"/journey?id={ORDER_FLOW}&clocks=recorded")
    assert _records([row for row in as_recorded if len(row) == 8 and row[2].isdigit()]) == [
        (one["node"][:8], str(one["seq"]), one["event"]) for one in by_each_clock
    ]


def _records(rows: list[list[str]]) -> list[tuple[str, str, str]]:
    return [(row[1], row[2], row[3]) for row in rows]


def test_a_beginning_of_an_id_is_enough_unless_several_flows_have_it(tmp_path: Path, opening: Opening) -> None:
    flows = [{"flow_id": name, "journey_id": name, "outcome": "complete"} for name in ("abc1", "abc2", "abc")]
    client = opening(write_planted(tmp_path / "tables", flows=flows))
    assert "abc1" in text_of(client, "/journey?id=abc1")
    several = client.get("/journey?id=ab").text
    assert several.count("<li>") == 3
    assert "Several flows" not in text_of(client, "/journey?id=abc"), "a whole id names one flow"
    assert "no flow" in text_of(client, "/journey?id=zzz", 404)
    assert "has no id" in text_of(client, "/journey", 400)


def test_a_beginning_that_nobody_has_finds_nothing(planted_tables: Path) -> None:
    live = LiveTables(planted_tables)
    with live.reading() as snapshot:
        assert journey(snapshot.tables, "zzz") == Several("zzz", [])
    live.close()


def test_what_goes_wrong_in_a_journey_is_marked(client: Client) -> None:
    said = text_of(client, f"/journey?id={ORDER_FLOW}")
    assert "Security incidents bad signature : ORDER" in said
    page = client.get(f"/journey?id={ORDER_FLOW}").text
    titles = [unescape(title) for title in re.findall(r"<title>([^<]+)</title>", page)]
    assert any(title.startswith("run Stock.reserve at bbbbbbbb: 8.4 ms, on the critical path") for title in titles)
