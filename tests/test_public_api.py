"""The public API does not change by accident."""

from __future__ import annotations

from tools.public_api import SNAPSHOT, public_api

import hopline

ENOUGH_NAMES = 55


def test_the_public_api_is_the_one_that_was_written_down() -> None:
    # A change on purpose: python -m tools.public_api
    assert public_api() == SNAPSHOT.read_text(encoding="utf-8")


def test_the_front_has_what_an_application_needs_and_no_more() -> None:
    assert len(hopline.__all__) <= ENOUGH_NAMES
    assert sorted(set(hopline.__all__)) == sorted(hopline.__all__)
