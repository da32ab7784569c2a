"""The log of messages that reached no receiver: complete for a few, bounded for many."""

from __future__ import annotations

import logging

import pytest

from hopline import Message, MessageIdentifier, Outcome
from hopline.message import EXCEPTION
from hopline.observers.outcomes import RECORDS_PER_SECOND, FailureLog
from hopline.routing import Delivery

from .running import Clock

LOST = Delivery(Message(b"LOST"), MessageIdentifier(b"LOST"), 1_000.0)
LOST_REPORT = Delivery(Message(EXCEPTION.identity), EXCEPTION, 1_000.0)


def test_only_the_first_failures_of_a_second_are_logged_and_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    failure_log = FailureLog(clock)
    with caplog.at_level(logging.DEBUG, logger="hopline"):
        for _ in range(RECORDS_PER_SECOND + 5):
            failure_log.ended(LOST, Outcome.EXPIRED, "too late", None)
        logged = [record.getMessage() for record in caplog.records]
        assert logged == ["LOST/1 ended as expired: too late"] * RECORDS_PER_SECOND
        caplog.clear()
        clock.now += 1
        failure_log.ended(LOST, Outcome.EXPIRED, "too late", None)
        assert [record.getMessage() for record in caplog.records] == [
            "5 more delivery failures were not logged",
            "LOST/1 ended as expired: too late",
        ]


def test_the_failure_of_a_report_is_logged_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hopline"):
        FailureLog(Clock()).ended(LOST_REPORT, Outcome.UNROUTABLE, "nobody", None)
    assert not caplog.records
