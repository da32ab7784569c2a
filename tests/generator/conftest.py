"""Two small captures, each made and read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopline.capture.records import Level
from hopline.generator import Options, generate
from tests.generator.reading import Reading

MESSAGES = 20_000


@pytest.fixture(scope="session", params=[Level.FULL, Level.WIRE], ids=str)
def captured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one in several batches, so that flows reach from one into the next, and one in a single batch."""
    out: Path = tmp_path_factory.mktemp(f"captures-{request.param}") / "out"
    records = MESSAGES // 8 if request.param is Level.FULL else MESSAGES
    generate(out, Options(messages=MESSAGES, seed=11, level=request.param), batch_records=records)
    return out


@pytest.fixture(scope="session")
def reading(captured: Path) -> Reading:
    return Reading(captured)
