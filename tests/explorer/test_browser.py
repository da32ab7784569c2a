"""The explorer in a real browser: Chromium, driven by Playwright, over generated traffic with planted faults."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from hopline.explorer.report import make_report
from tests.cli.commands import Command
from tests.explorer.generated import Generated, make_generated
from tests.query.written import flow, write_table

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium for the browser tests: apt-get install chromium"),
    pytest.mark.jvm,
    pytest.mark.timeout(1_200),  # the first test waits for Spark
]

WAIT_MS = 60_000
PATHS = (
    "/",
    "/topology",
    "/topology?kind=logical",
    "/topology?kind=logical&by=instances&colour=errors",
    "/search",
    "/search?kind=journeys",
    "/callbacks",
    "/incidents",
    "/rejects",
    "/clocks",
    "/audit",
    "/tables",
    "/rows/hops?lost=true",
)
# What may be operated or looked at needs a name. Chromium computes names as screen readers hear them.
NAMED_ROLES = {"button", "combobox", "image", "img", "link", "searchbox", "textbox", "meter", "heading", "region"}


@dataclass
class Seen:
    """A page of the browser, and what went wrong on it."""

    page: Page
    address: str
    problems: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.address.rstrip("/") + path, wait_until="load")

    def text(self, selector: str = "main") -> str:
        return re.sub(r"\s+", " ", self.page.inner_text(selector))


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    base = tmp_path_factory.getbasetemp()
    return make_generated((base.parent if base.name.startswith("popen-") else base) / "generated")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def explorer(generated: Generated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("explorer")
    arguments = ("explore", str(generated.tables), "--captures", str(generated.captures), "--port", "0", "--no-open")
    with Command(folder, *arguments) as command:
        yield command.line("http://127.0.0.1:").split()[0]
        assert command.stop() == 0
        assert len(command.lines) == 1, command.lines


@pytest.fixture(params=["light"])
def seen(browser: Browser, explorer: str, request: pytest.FixtureRequest) -> Iterator[Seen]:
    yield from look(browser, explorer, request.param)


def look(browser: Browser, address: str, scheme: Literal["light", "dark"]) -> Iterator[Seen]:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    seen = Seen(page, address)
    own = urlsplit(address).netloc

    def requested(request: Request) -> None:
        if urlsplit(request.url).netloc != own:
            seen.problems.append(f"asked {request.url}")

    def told(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            seen.problems.append(message.text)

    page.on("request", requested)
    page.on("console", told)
    page.on("pageerror", lambda error: seen.problems.append(str(error)))
    yield seen
    context.close()
    assert seen.problems == []


def violations(page: Page) -> list[str]:
    """Return what breaks a rule of axe-core: those of WCAG, contrast among them, and its best practices."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("seen", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_whole_named_and_legible_in_both_themes(seen: Seen, path: str) -> None:
    seen.go(path)
    assert seen.page.locator("h1").count() == 1
    tree = seen.page.context.new_cdp_session(seen.page).send("Accessibility.getFullAXTree")["nodes"]
    nameless = [
        node
        for node in tree
        if not node.get("ignored")
        and node["role"]["value"] in NAMED_ROLES
        and not node.get("name", {}).get("value", "").strip()
    ]
    assert nameless == []
    assert violations(seen.page) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing hangs out"
    ids = seen.page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("seen", ["light", "dark"], indirect=True)
def test_pages_that_others_lead_to_and_errors_are_accessible_too(seen: Seen) -> None:
    for path, link in (
        ("/search?kind=journeys&sort=largest", "main tbody tr a"),
        ("/rows/messages?event=sent&limit=1", "main tbody a[href^='/record']"),
        ("/rejects", "main tbody a[href^='/record']"),
    ):
        seen.go(path)
        seen.page.locator(link).first.click()
        seen.page.wait_for_url(re.compile("/(journey|record)[?]"))
        assert violations(seen.page) == []
    assert seen.problems == []
    for path in ("/journey?id=0", "/journey?id=none", "/search?from=never"):
        seen.go(path)
        assert violations(seen.page) == []
    seen.problems = [problem for problem in seen.problems if not re.search("status of 40[04]", problem)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_is_accessible_and_asks_nobody(
    browser: Browser, generated: Generated, tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    report = tmp_path / "report.html"
    report.write_text(make_report(generated.tables), "utf-8")
    for seen in look(browser, report.as_uri(), scheme):
        seen.page.goto(seen.address)
        assert seen.page.locator("article").count() > 5
        assert violations(seen.page) == []


@pytest.mark.parametrize("fault", ["lost", "forged", "expired", "unanswered", "exception"])
def test_search_finds_a_planted_flow_and_leads_to_its_journey(seen: Seen, generated: Generated, fault: str) -> None:
    planted = generated.planted(fault)
    if not planted:
        pytest.fail(f"no {fault} was planted: generate more")
    flow_id = planted[0]["flow_id"]
    seen.go("/")
    seen.page.keyboard.press("/")
    seen.page.keyboard.type(flow_id[:13])
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url(f"**/journey?id={flow_id}")
    assert flow_id in seen.text() or flow_id[:8] in seen.text()
    assert seen.page.locator("main svg[aria-label='Timeline of the journey'] g.line").count() >= 1


def test_the_timeline_goes_down_in_time_and_marks_the_critical_path(seen: Seen) -> None:
    seen.go("/search?kind=journeys&sort=largest")
    seen.page.locator("main tbody tr a").first.click()
    seen.page.wait_for_url("**/journey?id=*")
    lines = seen.page.eval_on_selector_all(
        "g.line",
        """lines => lines.map((line) => ({
            kind: line.dataset.kind, critical: line.dataset.critical === "yes",
            x: line.querySelector("rect").getBoundingClientRect().x,
            y: line.querySelector("rect").getBoundingClientRect().y,
        }))""",
    )
    assert lines[0]["kind"] == "flow"
    assert [line["y"] for line in lines] == sorted(line["y"] for line in lines)
    inside = []
    for line in lines[1:]:
        if line["kind"] == "flow":
            break
        inside.append(line["x"])
    assert inside == sorted(inside), "within a flow, what began first stands first"
    assert {line["kind"] for line in lines if line["critical"]} >= {"run", "transit"}


def test_a_record_shows_its_frames_and_a_malformed_one_its_fault(seen: Seen) -> None:
    seen.go("/rows/messages?event=sent&limit=1")
    seen.page.locator("main tbody a[href^='/record']").click()
    assert "correlation_id" in seen.text("table.frames")
    seen.go("/rejects")
    seen.page.locator("main tbody a[href^='/record']").first.click()
    assert seen.page.locator("tr.fault").count() == 1


def test_a_bar_of_the_chart_leads_to_the_flows_of_its_time(seen: Seen) -> None:
    seen.go("/")
    bar = seen.page.locator("figure svg a[href*='outcome=complete']").first
    assert bar.locator("path").get_attribute("aria-label")
    bar.click()
    seen.page.wait_for_url("**/search?from=*outcome=complete")
    assert seen.page.locator("main tbody tr").count() >= 1


def test_pages_and_rows_are_reached_by_keys(seen: Seen) -> None:
    seen.go("/")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    seen.page.keyboard.press("g")
    seen.page.keyboard.press("s")
    seen.page.wait_for_url("**/search")
    seen.page.keyboard.press("j")
    seen.page.keyboard.press("j")
    assert seen.page.locator("tbody tr.chosen").count() == 1
    href = seen.page.evaluate("document.activeElement.getAttribute('href')")
    assert href == seen.page.locator("main tbody tr").nth(1).locator("a").first.get_attribute("href")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url("**/journey?id=*")


def test_everything_works_without_script(browser: Browser, explorer: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(explorer)
    page.get_by_role("link", name="Search", exact=True).click()
    page.get_by_label("Outcome").select_option("incomplete")
    page.get_by_role("button", name="Search").click()
    assert page.locator("main tbody tr").count() >= 1
    context.close()


def test_the_theme_follows_the_system_and_a_link_overrides_it(seen: Seen) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    seen.go("/")
    light = seen.page.evaluate(background)
    seen.page.emulate_media(color_scheme="dark")
    dark = seen.page.evaluate(background)
    assert light != dark
    seen.page.get_by_role("link", name="light", exact=True).click()
    seen.page.locator("html[data-theme=light]").wait_for()
    seen.page.wait_for_load_state()
    assert seen.page.evaluate(background) == light
    seen.page.get_by_role("link", name="dark", exact=True).click()
    seen.page.locator("html[data-theme=dark]").wait_for()
    seen.page.wait_for_load_state()
    seen.page.emulate_media(color_scheme="light")
    assert seen.page.evaluate(background) == dark


def test_a_page_follows_tables_that_are_replaced(browser: Browser, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    write_table(tables, "flows", [flow("first-flow", "complete", 5)])
    with Command(tmp_path, "explore", str(tables), "--port", "0", "--no-open") as command:
        address = command.line("http://127.0.0.1:").split()[0]
        for seen in look(browser, address, "light"):
            seen.go("/search")
            assert "first-flow" in seen.text()
            shutil.rmtree(tables / "flows")
            write_table(tables, "flows", [flow("second-flow", "failed", 5) | {"identity": "ANOTHER"}])
            seen.page.get_by_text("second-flow").first.wait_for()
            assert "first-flow" not in seen.text()
            seen.page.locator("#live", has_text="updated").wait_for()
            seen.problems = [problem for problem in seen.problems if "500" not in problem]  # while there was no table
        assert command.stop() == 0
