"""A table of records on terminals of different widths."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hopline.cli.record_table import RecordTable

GUID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
CHOSEN = "the-front-desk"


@pytest.fixture
def table() -> RecordTable:
    table = RecordTable("node", "in", "", "errors", "address", right=("in", "errors"))
    table.add_row(GUID, "1,000", "=", "0", "tcp://127.0.0.1:5101")
    table.add_row(CHOSEN, "7", "!", "0", "tcp://127.0.0.1:5102")
    return table


def draw(table: RecordTable, width: int) -> list[str]:
    written = io.StringIO()
    Console(file=written, width=width).print(table)
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


def test_where_it_fits_every_column_is_shown(table: RecordTable) -> None:
    assert draw(table, 80) == [
        "node                                     in     errors  address",
        f"{GUID}  1,000  =       0  tcp://127.0.0.1:5101",
        f"{CHOSEN}                            7  !       0  tcp://127.0.0.1:5102",
    ]


def test_then_generated_identities_are_shortened_and_empty_columns_left_out(table: RecordTable) -> None:
    assert draw(table, 60) == [
        "node               in     address",
        "0f1e2d3c        1,000  =  tcp://127.0.0.1:5101",
        "the-front-desk      7  !  tcp://127.0.0.1:5102",
    ]


def test_then_each_row_is_a_block_with_everything_in_it(table: RecordTable) -> None:
    assert draw(table, 38) == [
        GUID,
        "  in 1,000   =   errors 0",
        "  address tcp://127.0.0.1:5101",
        CHOSEN,
        "  in 7   !   errors 0",
        "  address tcp://127.0.0.1:5102",
    ]


def test_a_row_without_a_first_cell_belongs_to_the_one_above() -> None:
    table = RecordTable("message", "node")
    table.add_row("Greet/1", "one-node-with-a-long-name")
    table.add_row("", "another-node")
    assert draw(table, 32) == ["Greet/1", "  node one-node-with-a-long-name", "  node another-node"]
