"""Who is answered, what a page may do, and what hostile names, addresses and tables come to."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopline.explorer import app
from hopline.explorer.addresses import address, own_path
from hopline.explorer.contract import COLUMNS
from hopline.explorer.hosts import Hosts
from hopline.explorer.pages.context import Context
from hopline.pipeline.tables.all import TABLES
from tests.explorer.asking import Client
from tests.explorer.conftest import Opening
from tests.explorer.planted import ORDER_FLOW, RECORDS, SHOP, at, write_planted
from tests.explorer.test_pages import PAGES, text_of
from tests.query.written import DAY

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a word in a table of cases
SCRIPT = "<script>alert(1)</script>"
ATTRIBUTE = '"><img src=x onerror=alert(1)>'
BIDI = "abc\u202etxt.exe"
CONTROLS = "\x1b[31mred\x00\x07\r\n\x9b"
JAVASCRIPT = "javascript:alert(1)"
TEMPLATE = "{{ 7 * 7 }}{% raw %}"
HOSTILE = (SCRIPT, ATTRIBUTE, BIDI, CONTROLS, JAVASCRIPT, TEMPLATE, "' or 1=1 --", "x" * 5_000_000, "", "../../etc")


@pytest.mark.parametrize(
    ("bound_to", "header", "is_accepted"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "localhost:8000", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "127.1.2.3", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "evil.example:8000", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "192.168.0.7", False),
        ("127.0.0.1", "127.0.0.1@evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "a b", False),
        (EVERYWHERE, "192.168.0.7:8000", True),
        (EVERYWHERE, "evil.example", False),
        (EVERYWHERE, "explorer.lan", True),
    ],
)
def test_only_own_names_and_addresses_are_answered(bound_to: str, header: str, is_accepted: bool) -> None:
    more = ["Explorer.lan"] if bound_to == EVERYWHERE else []
    assert Hosts(bound_to, more).accept(header) is is_accepted


def test_a_foreign_host_gets_nothing(client: Client) -> None:
    for path in ("/", "/state", "/static/style.css"):
        response = client.get(path, headers={"host": "evil.example"})
        assert response.status_code == 421
        assert "Flows" not in response.text
        assert "content-security-policy" in response.headers


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/state", "/static/live.js", "/journey"])
def test_every_answer_forbids_what_does_not_come_from_here(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_inline_script_or_style_and_no_foreign_address(client: Client, path: str) -> None:
    page = client.get(path).text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert re.findall(r"<script[^>]*>", page) == ['<script src="/static/live.js" defer>']
    addresses = re.findall(r'(?:href|src|action)="([^"]*)"', page)
    assert all(target.startswith(("/", "#")) for target in addresses), addresses


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_but_reading_is_possible(client: Client, method: str) -> None:
    assert client.request(method, "/search").status_code == 405


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/", "/rows/..%2f..%2fetc", "/%00"],
)
def test_no_path_leads_outside(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code in (400, 404, 405)
    assert "Starlette" not in response.text


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("/clocks?a=b", "/clocks?a=b"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nset-cookie: b", "/"),
        ("", "/"),
    ],
)
def test_a_link_of_ours_sends_nobody_elsewhere(client: Client, given: str, target: str) -> None:
    assert own_path(given) == target
    assert client.get("/theme", params={"to": "dark", "back": given}).headers["location"] == target


def test_a_fault_in_a_page_is_told_without_its_stack_and_with_all_headers(
    planted_tables: Path, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Context) -> str:
        raise RuntimeError("a secret")

    monkeypatch.setitem(app.PAGES, "/audit", broken)
    response = opening(planted_tables).get("/audit")
    assert response.status_code == 500
    assert "This page could not be made" in response.text
    assert "secret" not in response.text
    assert "content-security-policy" in response.headers


def test_a_value_that_no_page_takes_makes_no_link() -> None:
    assert address("/search", {"q": "x" * 3_000}) == ""
    assert address("/search", {"q": "a&b=c"}) == "/search?q=a%26b%3Dc"


def _hostile_tables(folder: Path, text: str) -> Path:
    record = RECORDS[0] | {
        "identity": text,
        "node": text,
        "peer": text,
        "receiver_name": text,
        "handler": text,
        "reason": text,
        "flow_id": text or "empty",
        "correlation_id": text,
        "segment": text,
        "bodies": [text.encode()[: 64 << 10]],
    }
    flow: dict[str, Any] = {"flow_id": text or "empty", "journey_id": text or "empty", "start_ts": at(0)}
    flow |= {"identity": text, "origin": text, "outcome": text, "duration_us": 1, "parent_flow_id": text}
    stage = {"stage": text, "node": text, "identity": text, "us": 1, "handler": text, "flow_id": text}
    edge: dict[str, Any] = {"kind": "logical", "source": text, "source_node": text, "source_name": text, "target": text}
    edge |= {"target_node": text, "target_name": text, "identity": text, "count": 1, "errors": 0, "lost": 0}
    hop = {"flow_id": text or "empty", "from_node": text, "to_node": text, "identity": text, "sent_ts": at(0)}
    return write_planted(
        folder,
        messages=[record, *RECORDS],
        flows=[flow | {"critical_path": [stage]}],
        journeys=[],
        edges=[edge, edge | {"kind": "physical"}],
        hops=[hop | {"lost": True, "received_ts": at(5)}],
        handlers=[{"node": text, "actor": text, "actor_name": text, "handler": text, "identity": text, "count": 1}],
        incidents=[{"ts": at(0), "node": text, "seq": 1, "peer": text, "offence": text, "identity": text}],
        rejects=[{"ts": at(0), "node": text, "seq": 9, "code": text, "detail": text, "frames": [text.encode()[:9999]]}],
        callbacks=[{"flow_id": text, "asked_node": text, "identity": text, "outcome": text, "asked_ts": at(0)}],
        skew=[{"node_a": text, "node_b": "b", "offset_us": 5, "bound_us": 1}],
        audit=[{"node": text, "hour": at(0), "balance": 1, "balanced": False}],
    )


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12].encode("unicode_escape").decode() or "empty")
def test_hostile_names_are_shown_as_text_on_every_page(tmp_path: Path, opening: Opening, text: str) -> None:
    client = opening(_hostile_tables(tmp_path / "tables", text))
    waiting, seen = list(PAGES), set(PAGES)
    while waiting and len(seen) < 120:
        response = client.get(waiting.pop(0))
        page = re.sub(r'<input type="hidden"[^>]*>', "", response.text)
        assert response.status_code in (200, 303, 400, 404), page
        assert len(page) < 2_000_000, "what is long is cut"
        assert "<script>alert" not in page
        assert "<img" not in page
        assert not re.search(r'(href|src|action)="\s*javascript', page, re.IGNORECASE)
        assert "\u202e" not in page
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)
        assert ">49<" not in page
        for link in re.findall(r'href="(/[^"]*)"', page):
            link = unescape(link)
            if link not in seen and not link.startswith("/theme"):
                seen.add(link)
                waiting.append(link)


def test_hostile_parameters_are_shown_as_text_or_refused(client: Client) -> None:
    for path in ("/search?q=", "/search?identity=", "/journey?id=", "/rows/flows?identity=", "/topology?node=",
                 "/rejects?code=", "/clocks?reference=", "/?from=", "/record?seq=1&node=", "/rows/"):  # fmt: skip
        for text in HOSTILE[:-3]:
            page = re.sub(r'<input type="hidden"[^>]*>', "", client.get(path + quote(text)).text)
            assert "<script>alert" not in page
            assert "<img" not in page
            assert "\u202e" not in page


def _write(tables: Path, name: str, table: pa.Table) -> Path:
    (file,) = (tables / name).rglob("*.parquet")
    pq.write_table(table, file)
    return file


def test_a_table_with_wrong_types_or_missing_columns_gets_a_page_that_says_so(tmp_path: Path, opening: Opening) -> None:
    tables = write_planted(tmp_path / "tables")
    flows = pq.read_table(next((tables / "flows").rglob("*.parquet")))
    _write(
        tables,
        "flows",
        flows.set_column(flows.schema.get_field_index("duration_us"), "duration_us", pa.array(["x"] * 3)),
    )
    said = text_of(opening(tables), "/", 500)
    assert "The tables cannot be shown" in said
    assert "the table flows is not as hopline pipeline run writes it: duration_us is VARCHAR" in said
    _write(tables, "flows", flows.drop_columns(["journey_id", "outcome"]))
    assert "no column outcome; no column journey_id" in text_of(opening(tables), "/search", 500)
    nested = pa.array([[{"stage": 1}]] * 3)
    _write(tables, "flows", flows.set_column(flows.schema.get_field_index("critical_path"), "critical_path", nested))
    assert "critical_path is STRUCT" in text_of(opening(tables), f"/journey?id={ORDER_FLOW}", 500)
    assert text_of(opening(tables), "/audit"), "other pages still work"


def test_a_file_that_is_no_parquet_gets_a_page_that_says_so(tmp_path: Path, opening: Opening) -> None:
    tables = write_planted(tmp_path / "tables")
    next((tables / "flows").rglob("*.parquet")).write_bytes(b"nothing of the kind, but longer than a footer")
    assert "The tables cannot be shown" in text_of(opening(tables), "/", 500)


def test_values_at_the_ends_of_their_types_do_not_break_a_page(tmp_path: Path, opening: Opening) -> None:
    largest, smallest = 2**63 - 1, -(2**63)
    extreme = {"flow_id": "x", "journey_id": "x", "duration_us": largest, "skew_us": smallest, "start_ts": at(0)}
    nothing: dict[str, Any] = {"flow_id": "y", "journey_id": None}
    tables = write_planted(tmp_path / "tables", flows=[extreme, nothing], messages=[{"node": SHOP}], hops=[{}])
    client = opening(tables)
    for path in ("/", "/search", "/journey?id=x", "/journey?id=y", "/rows/flows", "/rows/messages"):
        response = client.get(path)
        assert response.status_code in (200, 500)
        if response.status_code == 500:
            assert "The tables cannot be shown" in response.text


def test_the_columns_that_pages_read_are_those_that_the_pipeline_writes() -> None:
    kinds = {"string": "text", "bigint": "integer", "int": "integer", "timestamp": "time", "boolean": "flag"}
    kinds["array<binary>"] = "frames"
    for table, columns in COLUMNS.items():
        written = {field.name: field.dataType.simpleString() for field in TABLES[table].schema}
        for column, kind in columns.items():
            assert kinds.get(written[column], "stages") == kind, f"{table}.{column}"
    assert list(COLUMNS) == list(TABLES)


def test_the_day_of_the_planted_tables_is_the_partition(planted_tables: Path) -> None:
    assert (planted_tables / "flows" / f"date={DAY}").is_dir()
