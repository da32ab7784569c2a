"""Make the pictures of the explorer in docs/images: ``make screenshots``.

Generates traffic with planted faults, makes the tables, starts the explorer over them and photographs its pages with
Chromium. ``--tables`` and ``--captures`` name others that are there already.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run_pipeline

IMAGES = Path(__file__).parent.parent / "docs" / "images"
RECORDS = 20_000
WIDTH = 1280


def made(folder: Path) -> tuple[Path, Path]:
    """Generate captures, make the tables of them, and return both folders."""
    generate(folder / "made", Options(messages=RECORDS, seed=7, rate=50))
    captures, keys = folder / "made" / "captures", folder / "made" / "keys" / "hopline.toml"
    options = PipelineOptions(captures=(str(captures),), out=folder / "tables", keys=keys, with_bodies=True)
    run_pipeline(options)
    return folder / "tables", captures


def photograph(browser: Browser, address: str, name: str, path: str, height: int, scheme: str = "light") -> None:
    """Write a picture of a page; a path that begins with ``>`` is the first link on the page before it."""
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": WIDTH, "height": height}
    )
    page = context.new_page()
    start, _, link = path.partition(">")
    page.goto(address.rstrip("/") + start)
    if link:
        page.locator(link).first.click()
        page.wait_for_load_state()
    page.screenshot(path=IMAGES / f"{name}.png")
    context.close()


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--captures", type=Path)
    given = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("screenshots need Chromium: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tables, captures = (given.tables, given.captures) if given.tables else made(Path(folder))
        command = [sys.executable, "-m", "hopline", "explore", str(tables), "--port", "0", "--no-open"]
        if captures is not None:
            command += ["--captures", str(captures)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:  # noqa: S603
            try:
                address = (process.stdout.readline() if process.stdout else "").split()[0]
                with sync_playwright() as driver:
                    browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                    for name, path, height, scheme in (
                        ("overview", "/", 1000, "light"),
                        ("overview-dark", "/", 1000, "dark"),
                        ("topology", "/topology?kind=logical", 860, "light"),
                        ("search", "/search?outcome=incomplete&sort=slowest", 760, "light"),
                        ("journey", "/search?kind=journeys&sort=oldest>main tbody a", 1320, "light"),
                        ("record", "/rejects?code=offset_out_of_range>main tbody a[href^='/record']", 900, "light"),
                        ("clocks", "/clocks", 760, "light"),
                    ):
                        photograph(browser, address, name, path, height, scheme)
                        print(IMAGES / f"{name}.png")
                    browser.close()
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
