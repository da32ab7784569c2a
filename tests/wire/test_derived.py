"""What is made from the layout tables is in step with them, and the tables agree with the message."""

from __future__ import annotations

import dataclasses

import pytest
from tools import wire_formats_page
from tools.compiler.modules import generate

from hopline import Message
from hopline.wire import Entries, Field, Layout, layouts

EVERY_LAYOUT = list(layouts.LAYOUTS.values())


def name_of(layout: Layout) -> str:
    return layout.name


def test_the_compiled_codecs_are_those_of_the_tables() -> None:
    for path, source in generate().items():
        assert path.read_text(encoding="utf-8") == source, f"{path.name} is stale: make generate"


def test_the_documentation_page_is_that_of_the_tables() -> None:
    page = wire_formats_page.TARGET.read_text(encoding="utf-8")
    assert page == wire_formats_page.generate(), "docs/reference/wire-formats.md is stale: make generate"


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
def test_every_field_of_a_layout_is_a_field_of_the_message(layout: Layout) -> None:
    names = list(layout.names())
    assert len(names) == len(set(names))
    assert set(names) <= set(Message.__struct_fields__)


def test_the_newest_formats_have_a_place_for_every_field_of_the_message() -> None:
    every = set(Message.__struct_fields__) - {"wire_format"}
    assert set(layouts.V6.names()) == every
    assert set(layouts.V5.names()) == every - {"socket_identity"}


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
def test_positions_count_up_from_the_end_without_a_gap(layout: Layout) -> None:
    assert [row.position for row in layout.fixed] == list(range(1, len(layout.fixed) + 1))
    assert [row.position for row in layout.meta] == list(range(1, len(layout.meta) + 1))
    if layout.extension is not None:
        assert layout.extension.position == len(layout.meta or layout.fixed) + 1
    for entries in layout.entries:
        assert [row.position for row in entries.fields] == list(range(entries.divisor))


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
def test_every_row_says_what_it_means(layout: Layout) -> None:
    for row in (*layout.fixed, *layout.meta):
        assert row.meaning
        if isinstance(row, Field):
            assert all(word.meaning for word in row.words)
            assert len(row.words) in (0, 4)


def test_the_route_selectors_are_those_that_the_documents_star() -> None:
    def selectors(layout: Layout) -> set[str]:
        rows = [row for row in (*layout.fixed, *layout.meta) if not isinstance(row, Entries)]
        starred = {row.name for row in rows if row.selector}
        return starred | {word.name for row in rows for word in row.words if word.selector}

    starred = {"receiver_identity", "receiver_node_identity", "partition", "version", "identity", "distribution"}
    assert selectors(layouts.V4) == selectors(layouts.V5) == selectors(layouts.V6) == starred
    assert selectors(layouts.FIRST) == starred - {"receiver_node_identity", "partition"}


def test_v4_and_v5_share_their_table_as_the_documents_do() -> None:
    assert [dataclasses.asdict(row) for row in layouts.V4.fixed] == [
        dataclasses.asdict(row) for row in layouts.V5.fixed
    ]
