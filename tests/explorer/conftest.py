"""The explorer over the planted tables, asked without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hopline.explorer.app import Explorer, create_app
from hopline.explorer.hosts import Hosts
from hopline.explorer.live_tables import LiveTables
from hopline.explorer.protobuf_bodies import ProtobufTypes
from hopline.explorer.records import RecordedFrames
from tests.explorer.asking import Client
from tests.explorer.planted import write_captures, write_planted

Opening = Callable[..., Client]


@pytest.fixture(scope="session")
def planted_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_planted(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session")
def planted_captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captures(tmp_path_factory.mktemp("captures"))


@pytest.fixture
def opening() -> Iterator[Opening]:
    """Open the explorer over tables; they are closed at the end."""
    opened: list[LiveTables] = []

    def open_explorer(tables: Path, captures: str | Path | None = None, descriptor: Path | None = None) -> Client:
        live = LiveTables(tables)
        opened.append(live)
        explorer = Explorer(live, Hosts("127.0.0.1"), RecordedFrames(captures), ProtobufTypes(descriptor))
        return Client(create_app(explorer))

    yield open_explorer
    for live in opened:
        live.close()


@pytest.fixture
def client(opening: Opening, planted_tables: Path, planted_captures: Path) -> Client:
    return opening(planted_tables, planted_captures)
