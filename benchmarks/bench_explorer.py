"""How long the explorer's pages take, beside plain DuckDB reading the same rows: ``make bench-explorer``.

Without ``--tables`` it generates captures and makes the tables first, with Spark, which takes its time. Every page is
asked for with nothing in the caches of the explorer: the overview on tables that were just opened, journeys and
searches each time for another flow. The files are in the cache of the operating system, for both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import httpx
from starlette.types import ASGIApp

from hopline.explorer import charts
from hopline.explorer.app import Explorer, create_app
from hopline.explorer.hosts import Hosts
from hopline.explorer.live_tables import LiveTables
from hopline.explorer.records import RecordedFrames
from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run_pipeline

RECORDS = 10_000_000
ROUNDS = 9
RECORDS_A_SECOND = 2_000
FIRST_PAINT = """() => new Promise(resolve => new PerformanceObserver(seen => {
    const [paint] = seen.getEntriesByName("first-contentful-paint");
    if (paint) resolve(paint.startTime);
}).observe({type: "paint", buffered: true}))"""


@dataclass(frozen=True, slots=True)
class Case:
    """A page, the addresses that are asked for in turn, and the rows that plain DuckDB reads for them."""

    name: str
    goal: float  # seconds
    addresses: Sequence[str]
    queries: Sequence[tuple[str, list[Any]]]
    is_cold: bool = False  # the tables are opened again before each


@contextmanager
def explorer(tables: Path) -> Iterator[ASGIApp]:
    """Open the tables, and return the application over them."""
    live = LiveTables(tables)
    try:
        yield create_app(Explorer(live, Hosts("127.0.0.1"), RecordedFrames(None)))
    finally:
        live.close()


def cases(tables: Path, rounds: int) -> list[Case]:
    """Return what is measured, for flows that are picked from all over the tables."""
    flows, messages, hops = (f"read_parquet('{tables}/{name}/*/*.parquet')" for name in ("flows", "messages", "hops"))
    picked = duckdb.execute(
        f"select flow_id, start_ts from {flows} using sample reservoir({rounds} rows) repeatable (7)"  # noqa: S608
    ).fetchall()
    ids = [row[0] for row in picked]
    days = [row[1].date() for row in picked]
    overview = f"""select outcome, count(*), quantile_disc(duration_us, [0.5, 0.95, 0.99]), sum(messages) from {flows}
        group by outcome"""  # noqa: S608
    journey = f"select * from {messages} where flow_id = $1"  # noqa: S608
    prefix = f"select flow_id, outcome, duration_us from {flows} where starts_with(flow_id, $1) limit 50"  # noqa: S608
    slowest = f"""select flow_id, outcome, duration_us from {flows} where outcome <> 'complete' and duration_us > $1
        order by duration_us desc limit 50"""  # noqa: S608
    by_node = f"""select flow_id, start_ts from {flows} where flow_id in
        (select flow_id from {messages} where receiver_name = 'Price' and ts >= $1) order by start_ts desc limit 50"""  # noqa: S608
    lost = f"select * from {hops} where lost limit 50"  # noqa: S608
    return [
        Case("first paint: the overview", 1.0, ["/"] * rounds, [(overview, [])], is_cold=True),
        Case("one journey", 0.3, [f"/journey?id={flow}" for flow in ids], [(journey, [flow]) for flow in ids]),
        Case("search: beginning of an id", 1.0, [f"/search?q={flow[:6]}" for flow in ids], [(prefix, [ids[0][:6]])]),
        Case(
            "search: slowest that failed",
            1.0,
            [f"/search?outcome=incomplete&sort=slowest&least={nth}us" for nth in range(rounds)],
            [(slowest, [nth]) for nth in range(rounds)],
        ),
        Case(
            "search: actor, of all time",
            1.0,
            [f"/search?actor=Price&least={nth}us" for nth in range(rounds)],
            [(by_node, [days[0]])],
        ),
        Case("rows: lost hops", 1.0, [f"/rows/hops?lost=true&limit={50 + nth}" for nth in range(rounds)], [(lost, [])]),
        Case("topology", 1.0, [f"/topology?from=2020-01-{1 + nth:02}" for nth in range(rounds)], []),
    ]


def timed(call: Callable[[], object]) -> float:
    """Return how long a call takes, in seconds."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(tables: Path, rounds: int) -> bool:
    """Measure all pages, print their medians, and return whether every goal was met."""
    charts.warm_up()
    are_met = True
    print(f"{'page':<30}{'median':>10}{'goal':>9}{'':>6}{'plain DuckDB':>14}{'ratio':>8}")
    for case in cases(tables, rounds):
        pages = list(_pages(case, tables))
        plain = [timed(partial(_plain, *query)) for query in case.queries for _ in range(2)]
        median = statistics.median(pages)
        is_met = median <= case.goal
        are_met &= is_met
        beside = statistics.median(plain) if plain else None
        shown = "" if beside is None else f"{beside:>12.3f} s{median / beside:>8.1f}"
        verdict = "met" if is_met else "not met"
        print(f"{case.name:<30}{median:>8.3f} s{case.goal:>7.1f} s {verdict:<8}{shown}")
    return are_met


def _pages(case: Case, tables: Path) -> Iterator[float]:
    if case.is_cold:
        for address in case.addresses:
            with explorer(tables) as app:
                yield timed(partial(_get, app, address))
        return
    with explorer(tables) as app:
        _get(app, "/tables")  # the views are there
        for address in case.addresses:
            yield timed(partial(_get, app, address))


def _get(app: ASGIApp, address: str) -> None:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000") as client:
            return await client.get(address)

    response = asyncio.run(ask())
    if response.status_code != 200:
        raise SystemExit(f"{address}: {response.status_code}\n{response.text}")


def _plain(query: str, values: list[Any]) -> None:
    duckdb.execute(query, values).fetchall()


def first_paint(tables: Path, rounds: int) -> None:
    """Print how long it takes until Chromium has drawn something of the overview, where there is a Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no Chromium: apt-get install chromium to see the time until something is drawn")
        return
    import subprocess
    import sys

    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "hopline", "explore", str(tables), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sync_playwright() as driver:  # noqa: S603
        try:
            address = (process.stdout.readline() if process.stdout else "").split()[0]
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            seconds = []
            for _ in range(rounds):
                page = browser.new_page()
                page.goto(address)
                seconds.append(page.evaluate(FIRST_PAINT) / 1_000)
                page.close()
            print(f"{'drawn by Chromium, warm':<30}{statistics.median(seconds):>8.3f} s")
            browser.close()
        finally:
            process.terminate()


def made_tables(folder: Path, records: int) -> Path:
    """Generate captures, and make the tables of them."""
    began = time.perf_counter()
    generate(folder / "made", Options(messages=records, seed=7, rate=RECORDS_A_SECOND))
    captures, keys = folder / "made" / "captures", folder / "made" / "keys" / "hopline.toml"
    run_pipeline(PipelineOptions(captures=(str(captures),), out=folder / "tables", keys=keys))
    print(f"{records:,} records: generated, and tables made, in {time.perf_counter() - began:.0f} s")
    return folder / "tables"


def main() -> None:
    """Measure, and exit with 1 when a goal was not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, help="tables that are there already")
    parser.add_argument("--messages", type=int, default=RECORDS, help="records to generate otherwise")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables = given.tables or made_tables(Path(folder), given.messages)
        are_met = measure(tables, given.rounds)
        first_paint(tables, given.rounds)
    raise SystemExit(0 if are_met else 1)


if __name__ == "__main__":
    main()
