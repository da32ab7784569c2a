"""Breaking lines that are longer than the terminal is wide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hopline.cli.ready_lines import ready_lines
from hopline.cli.wrapping import wrap


def test_a_line_that_fits_stays() -> None:
    assert wrap("a short line", 12) == ["a short line"]
    assert wrap("a line for a pipe, as long as it may be", None) == ["a line for a pipe, as long as it may be"]


def test_a_list_is_broken_between_its_entries() -> None:
    assert wrap("handles Order one, Order two, Order three", 20) == [
        "handles Order one,",
        "    Order two,",
        "    Order three",
    ]


def test_an_entry_that_is_too_long_is_broken_between_words_and_a_word_anywhere() -> None:
    assert wrap("  names a very long entry, anextremelylongword", 14) == [
        "  names a very",
        "    long",
        "    entry,",
        "    anextremel",
        "    ylongword",
    ]


def test_wide_characters_count_twice() -> None:
    assert wrap("注文 受付 完了", 10, hanging="") == ["注文 受付", "完了"]


@given(
    st.text(st.characters(blacklist_categories=["C", "Z", "M"])),
    st.lists(st.text("ab ,", max_size=30)),
    st.integers(6, 40),
)
def test_nothing_is_lost_and_no_line_is_too_long(word: str, texts: list[str], width: int) -> None:
    text = " ".join([word, *texts])
    lines = wrap(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_properties_are_broken_below_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "32")
    lines = ready_lines("hopline node desk", {"listens on": "tcp://10.0.0.1", "handles": "Greet/1, Farewell/1"})
    assert lines.splitlines() == [
        "hopline node desk is ready",
        "  listens on    tcp://10.0.0.1",
        "  handles       Greet/1,",
        "                Farewell/1",
    ]


def test_in_a_pipe_lines_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    kinds = ", ".join(f"Kind{number}/1" for number in range(100))
    assert ready_lines("hopline node desk", {"handles": kinds}).splitlines()[1] == f"  handles       {kinds}"
