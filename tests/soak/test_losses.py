"""A lost message has a cause only if a process ended at the right time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.soak.losses import NOTICE, UNWRITTEN, Cause, cause_of, explain
from tests.soak.processes import End, Life
from tests.soak.records import Lost, Unrecorded

KILLED_AT = 1_000.0
LIVES = [
    Life("node-1", 1, 11, began=900.0, ended=1_600.0, end=End.STOPPED),
    Life("node-2", 1, 12, began=900.0, ended=KILLED_AT, end=End.KILLED),
    Life("node-2", 2, 13, began=KILLED_AT, ended=1_500.0, end=End.STOPPED),
]


def lost(
    sent: float, before: float | None, after: float | None, sender: str = "node-1", receiver: str = "node-2"
) -> Lost:
    return Lost(sender, 1, receiver, "SOAK.NOTE", sent, before, after)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (lost(999.9, before=999.8, after=1_003.0), Cause.RECEIVER_ENDED),
        (lost(999.9, before=None, after=1_003.0), Cause.RECEIVER_ENDED),
        (lost(1_000.2, before=999.8, after=None), Cause.RECEIVER_ENDED),
        # Received by the same life before and after: the connection must have broken.
        (lost(980.0, before=979.9, after=980.1), Cause.CONNECTION_BROKE),
        # A later message reached the life that was killed.
        (lost(999.5, before=999.4, after=999.6), Cause.CONNECTION_BROKE),
        # Long before the kill, or long after it.
        (lost(990.0, before=989.9, after=1_003.0), Cause.CONNECTION_BROKE),
        (lost(1_000.0 + 2 * NOTICE, before=999.9, after=None), Cause.CONNECTION_BROKE),
        # Another node was killed.
        (lost(999.9, before=999.8, after=1_003.0, receiver="node-3"), Cause.CONNECTION_BROKE),
        # The last that a killed sender had sent.
        (lost(999.9, before=999.8, after=None, sender="node-2", receiver="node-3"), Cause.SENDER_ENDED),
        (lost(999.8, before=999.7, after=999.9, sender="node-2", receiver="node-3"), Cause.CONNECTION_BROKE),
        # A node that is stopped has had everything of the load; the others may still tell it something.
        (lost(1_499.9, before=1_499.8, after=None), Cause.CONNECTION_BROKE),
        (replace(lost(1_499.9, before=1_499.8, after=None), identity="KINO.PING"), Cause.RECEIVER_ENDED),
    ],
)
def test_the_cause_of_a_lost_message(message: Lost, cause: Cause) -> None:
    assert cause_of(message, LIVES) is cause


def test_what_a_killed_node_sent_in_its_last_moment_need_not_be_recorded() -> None:
    recent = Unrecorded("node-2", "node-1", "SOAK.NOTE", KILLED_AT - 0.3)
    old = Unrecorded("node-2", "node-1", "SOAK.NOTE", KILLED_AT - UNWRITTEN - 0.1)
    of_another = Unrecorded("node-1", "node-2", "SOAK.NOTE", KILLED_AT - 0.3)
    losses = explain([], [recent, old, of_another], LIVES)
    assert losses.unrecorded == 3
    assert losses.unexplained_unrecorded == [old, of_another]
    assert losses.oldest_unrecorded == pytest.approx(0.3)


def test_losses_with_a_connection_are_counted_by_the_life_of_the_sender() -> None:
    losses = explain([lost(980.0, 979.9, 980.1), lost(999.9, 999.8, 1_003.0)], [], LIVES)
    assert losses.broken_by_life == {("node-1", 1): 1}
    assert losses.by_cause == {Cause.RECEIVER_ENDED: 1, Cause.SENDER_ENDED: 0, Cause.CONNECTION_BROKE: 1}
