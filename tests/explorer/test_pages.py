"""What the pages say of the planted tables, and that every link on them leads somewhere."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from hopline.explorer.presentation import short_flow_id
from tests.explorer.asking import Client
from tests.explorer.conftest import Opening
from tests.explorer.planted import LOST_FLOW, ORDER_FLOW, PRICE_FLOW, PRICES, SHOP, STOCK, write_planted

PAGES = (
    "/",
    "/topology",
    "/search",
    f"/journey?id={ORDER_FLOW}",
    f"/record?node={SHOP}&seq=1",
    "/callbacks",
    "/incidents",
    "/rejects",
    "/clocks",
    "/audit",
    "/tables",
    "/rows/flows",
)
_TAG = re.compile(r"<[^>]+>")
_LINK = re.compile(r'(?:href|action)="(/[^"]*)"')


def text_of(client: Client, address: str, status: int = 200) -> str:
    """Return what a page says, without its tags."""
    response = client.get(address)
    assert response.status_code == status, f"{address}: {response.status_code}\n{response.text}"
    return re.sub(r"\s+", " ", unescape(_TAG.sub(" ", response.text)))


def rows_of(client: Client, address: str) -> list[list[str]]:
    """Return the cells of all rows of the tables of a page."""
    response = client.get(address)
    assert response.status_code == 200, response.text
    rows = []
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", response.text, re.DOTALL):
        cells = re.split(r"<td[^>]*>", row)[1:]
        rows.append([re.sub(r"\s+", " ", unescape(_TAG.sub(" ", cell))).strip() for cell in cells])
    return [row for row in rows if row]


@pytest.mark.parametrize("address", PAGES)
def test_every_page_has_a_title_one_heading_and_the_menu(client: Client, address: str) -> None:
    response = client.get(address)
    assert response.status_code == 200, response.text
    assert len(re.findall(r"<h1", response.text)) == 1
    assert re.search(r"<title>[^<]+ · Hopline</title>", response.text)
    for target in ("/topology", "/search", "/callbacks", "/incidents", "/rejects", "/clocks", "/audit", "/tables"):
        assert f'href="{target}"' in response.text


def test_every_link_leads_to_a_page(client: Client) -> None:
    waiting, seen = ["/"], {"/"}
    while waiting and len(seen) < 400:
        address = waiting.pop(0)
        response = client.get(address)
        assert response.status_code in (200, 303), f"{address}: {response.status_code}"
        for link in _LINK.findall(response.text):
            link = unescape(link)
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    assert any(link.startswith("/record") for link in seen)
    assert any(link.startswith("/rows/hops") for link in seen)


def test_the_overview_counts_what_was_planted(client: Client) -> None:
    said = text_of(client, "/")
    assert "Flows 3 " in said
    assert "Not complete 1 33.3% of the flows" in said
    assert "Requests not answered 1 of 2 that waited" in said
    assert "Hops lost 1" in said
    assert "Security incidents 1 1 records not decodable" in said
    assert "1 not accounted for" in said
    assert "3 records were dropped by their nodes, 2 are missing" in said
    assert "Stock.reserve" in said
    assert "bad signature" in said
    assert "unknown version" in said


def test_a_figure_of_the_overview_links_to_the_rows_behind_it(client: Client) -> None:
    page = client.get("/").text
    assert 'href="/search?outcome=incomplete"' in page
    assert 'href="/rows/hops?lost=true"' in page
    (lost,) = rows_of(client, "/rows/hops?lost=true")
    assert SHOP[:8] in lost
    assert PRICES[:8] in lost
    bar = re.search(r'<a href="(/search\?from=[^"]*outcome=expired)"', page)
    assert bar is not None, "a bar of the chart is a link"
    assert LOST_FLOW[:8] in text_of(client, unescape(bar[1]))


def test_a_time_range_limits_every_figure_and_stays_in_the_links(client: Client) -> None:
    said = text_of(client, "/?from=2026-01-31 12:00:30")
    assert "Flows 1 " in said
    page = client.get("/?from=2026-01-31 12:00:30").text
    assert 'href="/callbacks?from=2026-01-31T12%3A00%3A30"' in page
    assert ORDER_FLOW[:8] not in text_of(client, "/search?from=2026-01-31 12:00:30")


def test_a_row_of_a_table_is_found_by_any_column(client: Client) -> None:
    assert len(rows_of(client, "/rows/messages?event=delivered")) == 4
    assert len(rows_of(client, f"/rows/messages?event=delivered&node={STOCK}")) == 2
    assert [row[2] for row in rows_of(client, "/rows/flows?sort=-duration_us&limit=1")] != []
    assert len(rows_of(client, "/rows/flows?sort=-duration_us&limit=1")) == 1
    assert rows_of(client, "/rows/messages?peer=-&event=sent") == []
    assert "has no column" in text_of(client, "/rows/flows?nonsense=1", 400)
    assert "no table" in text_of(client, "/rows/nonsense", 404)


def test_the_topology_has_nodes_actors_and_the_neighbourhood_of_a_node(client: Client) -> None:
    page = client.get("/topology").text
    assert page.count('class="vertex') == 3
    assert page.count('<path class="edge') == 3
    assert client.get(f"/topology?node={PRICES}").text.count('<path class="edge') == 2
    logical = text_of(client, "/topology?kind=logical")
    assert "Stock" in logical
    by_node = text_of(client, "/topology?kind=logical&by=instances")
    assert STOCK[:8] in by_node
    failing = client.get("/topology?colour=errors").text
    assert 'class="edge level-3"' in failing, "a third of what went from SHOP to PRICES was lost"
    assert "expected one of" in text_of(client, "/topology?kind=x", 400)


def test_the_lists_say_what_happened_to_whom(client: Client) -> None:
    (callback,) = rows_of(client, "/callbacks")
    assert callback[0] == short_flow_id(LOST_FLOW)
    assert callback[4] == "expired"
    (answered,) = rows_of(client, "/callbacks?outcome=answered")
    assert answered[0] == short_flow_id(ORDER_FLOW)
    assert answered[3] == "ORDER attempt 2"
    (incident,) = rows_of(client, "/incidents")
    assert incident[1] == "bad signature"
    (reject,) = rows_of(client, "/rejects?code=unknown_version")
    assert reject[6] == "expected 4 or 5, found 9"
    assert rows_of(client, "/rejects?code=other") == []
    first, second = rows_of(client, "/audit")
    assert first[2] == "no", "what is not balanced comes first"
    assert second[2] == "yes"


def test_the_clocks_are_compared_with_one_that_agrees_with_others(client: Client) -> None:
    by_node = {row[0]: row[1:4] for row in rows_of(client, "/clocks") if len(row) == 5}
    assert by_node[STOCK[:8]] == ["2 s", "100 µs", "differs"]
    assert by_node[PRICES[:8]] == ["0 µs", "50 µs", "agrees within the bound"]
    from_stock = {row[0]: row[1] for row in rows_of(client, f"/clocks?reference={STOCK}") if len(row) == 5}
    assert from_stock[SHOP[:8]] == "-2 s"


def test_a_table_that_is_missing_costs_its_part_of_the_page_only(tmp_path: Path, opening: Opening) -> None:
    tables = write_planted(tmp_path / "tables")
    for name in ("audit", "skew", "incidents", "journeys"):
        for file in (tables / name).rglob("*.parquet"):
            file.unlink()
    client = opening(tables)
    assert "The table audit is not there" in text_of(client, "/")
    assert PRICE_FLOW[:8] in text_of(client, f"/journey?id={ORDER_FLOW}")
    assert "has no files" in text_of(client, "/audit", 404)


def test_the_theme_is_chosen_by_a_link_and_kept_in_a_cookie(client: Client) -> None:
    assert 'data-theme="auto"' in client.get("/").text
    response = client.get("/theme?to=dark&back=/clocks")
    assert response.status_code == 303
    assert response.headers["location"] == "/clocks"
    assert 'data-theme="dark"' in client.get("/").text
    client.get("/theme?to=nonsense")
    assert 'data-theme="dark"' in client.get("/").text
