"""Kinds of messages that somebody may have meant who names one that nobody handles."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hopline.message import MessageIdentifier, printable_name

MOST_COMPARED = 1_000  # known kinds, because each comparison takes some microseconds
MOST_SUGGESTED = 3

_SIMILARITY = 0.8  # of names; with less, names of one family (`ORDER.PRICE`, `ORDER.CREATE`) would be suggested


def close_kinds(kind: MessageIdentifier, known: Iterable[MessageIdentifier]) -> list[MessageIdentifier]:
    """Return the known kinds that resemble an unknown one, the closest first; none if the kind is known.

    Other versions and partitions of the same name come before other names.
    """
    candidates = list(dict.fromkeys(known))[:MOST_COMPARED]
    if kind in candidates:
        return []
    same_name = [candidate for candidate in candidates if candidate.identity == kind.identity]
    if same_name:
        return sorted(same_name, key=str)[:MOST_SUGGESTED]
    by_name = {_comparable(candidate): candidate for candidate in reversed(candidates)}
    matches = difflib.get_close_matches(_comparable(kind), by_name, MOST_SUGGESTED, _SIMILARITY)
    return [by_name[name] for name in matches]


def _comparable(kind: MessageIdentifier) -> str:
    return printable_name(kind.identity).casefold()


def question(kinds: Iterable[MessageIdentifier]) -> str:
    """Return the question that suggests some kinds: ``did you mean Greet/1?``; empty if there are none."""
    names = " or ".join(map(str, kinds))
    return f"did you mean {names}?" if names else ""
