"""The books of a node, and how much it says when it drowns."""

from __future__ import annotations

import logging

import pytest

from hopline import Message, MessageIdentifier, Outcome
from hopline.node.ledger import RECORDS_A_SECOND, Ledger
from hopline.routing import Delivery

from .running import Clock

LOST = Delivery(Message(b"LOST"), MessageIdentifier(b"LOST"), 1_000.0)


def test_a_flood_of_bad_endings_is_counted_and_only_begun_to_be_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    ledger = Ledger(clock, None)
    with caplog.at_level(logging.DEBUG, logger="hopline"):
        for _ in range(RECORDS_A_SECOND + 5):
            ledger.ended(LOST, Outcome.EXPIRED, "too late", quietly=False)
        assert [record.getMessage() for record in caplog.records] == ["LOST/1 ended as expired: too late"] * 10
        caplog.clear()
        clock.now += 1
        ledger.ended(LOST, Outcome.EXPIRED, "too late", quietly=False)
        assert [record.getMessage() for record in caplog.records] == [
            "and 5 more messages ended badly that were not logged",
            "LOST/1 ended as expired: too late",
        ]
    assert ledger.outcomes(unsent=0)[Outcome.EXPIRED] == RECORDS_A_SECOND + 6


def test_what_reports_others_ends_quietly(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hopline"):
        Ledger(Clock(), None).ended(LOST, Outcome.UNROUTABLE, "nobody", quietly=True)
    assert not caplog.records
