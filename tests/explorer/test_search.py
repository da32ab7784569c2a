"""Flows and journeys are found by whatever is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopline.explorer.presentation import short_flow_id
from tests.explorer.asking import Client
from tests.explorer.conftest import Opening
from tests.explorer.planted import LOST_FLOW, ORDER_FLOW, PRICE_FLOW, PRICES, STOCK, write_planted
from tests.explorer.test_pages import rows_of, text_of


@pytest.mark.parametrize(
    ("query", "flows"),
    [
        ("", [LOST_FLOW, PRICE_FLOW, ORDER_FLOW]),
        ("sort=oldest", [ORDER_FLOW, PRICE_FLOW, LOST_FLOW]),
        ("sort=slowest", [ORDER_FLOW, PRICE_FLOW, LOST_FLOW]),
        (f"q={ORDER_FLOW[:6]}", [ORDER_FLOW]),
        (f"q={ORDER_FLOW}", [ORDER_FLOW]),
        (f"q={short_flow_id(ORDER_FLOW)}", [ORDER_FLOW]),
        (f"q={ORDER_FLOW[:8]}…{PRICE_FLOW[-4:]}0", []),
        ("q=…", [LOST_FLOW, PRICE_FLOW, ORDER_FLOW]),
        ("q=' or true --", []),
        ("identity=PRICE", [PRICE_FLOW]),
        ("identity=price", [PRICE_FLOW]),
        ("outcome=expired", [LOST_FLOW]),
        ("outcome=incomplete", [LOST_FLOW]),
        (f"node={PRICES[:8]}", [PRICE_FLOW]),
        ("actor=Stock", [ORDER_FLOW]),
        ("actor=Price.quote", [PRICE_FLOW]),
        ("actor=quote", [PRICE_FLOW]),
        ("actor=stock-actor", [ORDER_FLOW]),
        (f"actor=Price&node={STOCK[:8]}", [PRICE_FLOW]),
        ("least=10ms", [ORDER_FLOW]),
        ("most=1ms", [LOST_FLOW]),
        ("least=1ms&most=8ms", [PRICE_FLOW]),
        ("body=blue-kettle", [LOST_FLOW, PRICE_FLOW, ORDER_FLOW]),
        ("body=red-kettle", []),
        ("from=2026-01-31 12:00:30", [LOST_FLOW]),
        ("from=2026-01-31&to=2026-01-31", [LOST_FLOW, PRICE_FLOW, ORDER_FLOW]),
        ("from=2026-02-01", []),
        ("kind=journeys", [ORDER_FLOW]),
        ("kind=journeys&actor=Price.quote", [ORDER_FLOW]),
        ("kind=journeys&actor=nobody", []),
        ("limit=1&offset=1", [PRICE_FLOW]),
    ],
)
def test_what_is_searched_for_is_found_and_nothing_else(client: Client, query: str, flows: list[str]) -> None:
    # PRICE_FLOW began by a clock that is two seconds ahead.
    found = [row[0].split()[0] for row in rows_of(client, f"/search?{query}")]
    assert found == [short_flow_id(flow) for flow in flows]


def test_an_id_in_the_head_of_a_page_leads_to_its_journey(client: Client) -> None:
    response = client.get(f"/search?q={LOST_FLOW[:8]}&go=1")
    assert response.status_code == 303
    assert response.headers["location"] == f"/journey?id={LOST_FLOW}"
    copied = client.get("/search", params={"q": short_flow_id(LOST_FLOW), "go": "1"})
    assert copied.headers["location"] == f"/journey?id={LOST_FLOW}"
    assert "Nothing found" in text_of(client, "/search?q=nonsense&go=1")


def test_tables_without_journeys_say_what_a_journey_is(tmp_path: Path, opening: Opening) -> None:
    client = opening(write_planted(tmp_path / "tables", journeys=[]))
    assert "No journeys: no handler sent anything further" in text_of(client, "/search?kind=journeys")
    assert "Nothing found" in text_of(client, "/search?kind=journeys&q=abc")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("least=soon", "no duration"),
        ("from=yesterday", "no time"),
        ("from=2026-02-01&to=2026-01-01", "range is empty"),
        ("sort=random", "expected one of"),
        ("limit=100000", "expected a number from 1 to 500"),
        ("offset=-1", "expected a number"),
        ("q=" + "x" * 3_000, "too long"),
    ],
)
def test_an_address_that_makes_no_sense_says_why(client: Client, query: str, problem: str) -> None:
    assert problem in text_of(client, f"/search?{query}", 400)
