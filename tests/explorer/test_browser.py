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
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.cli.commands import Command
from tests.explorer.generated import Generated, make_generated
from tests.query.written import flow, write_table

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium for the browser tests: apt-get install chromium"),
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
# Text and what is behind it, by WCAG 2.2: at least 4.5 to 1, or 3 to 1 for large text.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) { return colour; }
    }
    return [255, 255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const style = getComputedStyle(element);
    const shown = style.visibility !== "hidden" && element.getClientRects().length;
    if (!own || !shown || element.closest("svg")) { continue; }
    const [one, other] = [light(rgb(style.color)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      poor.push(`${ratio.toFixed(2)} ${element.tagName} ${element.textContent.trim().slice(0, 40)}`);
    }
  }
  return poor;
}"""


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
    assert seen.page.evaluate(CONTRAST) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing hangs out"
    ids = seen.page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))


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
    assert seen.page.evaluate(background) == light
    seen.page.get_by_role("link", name="dark", exact=True).click()
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
