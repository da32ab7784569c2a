"""What somebody may have meant who names a kind that nobody handles."""

from __future__ import annotations

import pytest

from hopline.message import MessageIdentifier
from hopline.routing.suggestions import MOST_SUGGESTED, close_kinds, question

KNOWN = [
    MessageIdentifier(b"ORDER.CREATED"),
    MessageIdentifier(b"ORDER.CREATED", 2),
    MessageIdentifier(b"ORDER.PRICE", 1, b"eu"),
    MessageIdentifier(b"Greet"),
    MessageIdentifier(b"\xff\xfe"),
]


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("ORDER.CREATE", ["ORDER.CREATED/1"]),
        ("order.created", ["ORDER.CREATED/1"]),
        ("greeet", ["Greet/1"]),
        ("SHIPMENT", []),
        ("Greet", []),
    ],
)
def test_names_that_resemble_it_are_suggested(named: str, meant: list[str]) -> None:
    assert [str(kind) for kind in close_kinds(MessageIdentifier(named.encode()), KNOWN)] == meant


def test_other_versions_and_partitions_of_the_same_name_come_first() -> None:
    assert [str(kind) for kind in close_kinds(MessageIdentifier(b"ORDER.CREATED", 3), KNOWN)] == [
        "ORDER.CREATED/1",
        "ORDER.CREATED/2",
    ]
    assert [str(kind) for kind in close_kinds(MessageIdentifier(b"ORDER.PRICE"), KNOWN)] == ["ORDER.PRICE/1/eu"]


def test_suggestions_are_few() -> None:
    known = [MessageIdentifier(b"KIND", version) for version in range(1, 50)]
    assert len(close_kinds(MessageIdentifier(b"KIND", 99), known)) == MOST_SUGGESTED


def test_the_question_names_all_of_them() -> None:
    assert question(KNOWN[:2]) == "did you mean ORDER.CREATED/1 or ORDER.CREATED/2?"
    assert question([]) == ""
