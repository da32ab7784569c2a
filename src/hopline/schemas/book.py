"""Which payload classes a node uses, and whether other nodes expect the same bodies.

On one node, the actors' classes of one name and version must have the same shape: `add` refuses an actor that breaks
this rule. Between nodes it cannot be enforced, because each is started by itself. Fingerprints of what actors handle
travel with announcements, and each node compares them with the classes that its own actors handle or return, and with
those that it sends. A difference is logged, once for each peer and message. A fingerprint is a hint from the network,
which nothing relies on, so it is forgotten when a node announces more messages than `MOST_ANNOUNCED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from hopline.message import MessageIdentifier, SchemaConflictError, Version, get_logger, payload_type, printable_name
from hopline.schemas.fingerprint import differences, fingerprint, fingerprint_text

log = get_logger("hopline.schemas")

Name: TypeAlias = tuple[bytes, Version]  # partitions of a message have one schema


MOST_ANNOUNCED = 1_000  # messages of one node whose fingerprints are remembered; it may announce ever new ones

_CACHED_ANNOUNCEMENTS = 256


class SentClasses(dict[type, bool]):
    """The payload classes that a node sends. The first look-up of a class adds it; each further one costs nothing more.

    Hubs look up the class of every payload, so there is no faster way to notice new ones.
    """

    def __init__(self, on_first: Callable[[type], None]) -> None:
        super().__init__()
        self._on_first = on_first

    def __missing__(self, cls: type) -> bool:
        self._on_first(cls)
        self[cls] = True
        return True


class SchemaBook:
    """The payload classes of one node, and the fingerprints that other nodes announced."""

    def __init__(self) -> None:
        self._classes: dict[Name, Counter[type]] = {}  # of actors: how many use each class
        self._added: dict[bytes, tuple[type, ...]] = {}  # the classes of each actor
        self.sent = SentClasses(self._compare_sent)
        self._sent: dict[Name, type] = {}
        self._announced: dict[bytes, Mapping[Name, int]] = {}  # by node
        self._reported: dict[bytes, set[Name]] = {}  # by node

    # -- this node -----------------------------------------------------------------------------------------------------

    def add(self, actor: bytes, classes: Iterable[type]) -> None:
        """Add the payload classes of an actor.

        Raises:
            SchemaConflictError: A class has the name of one that is used already, and another schema.
        """
        named = [(_name_of(cls), cls) for cls in classes]
        for name, cls in named:
            same_actor = [other for other_name, other in named if other_name == name]
            for other in (*self._classes.get(name, ()), *same_actor):
                _require_equal(other, cls)
        for name, cls in named:
            self._classes.setdefault(name, Counter())[cls] += 1
        self._added[actor] = tuple(cls for _, cls in named)

    def remove(self, actor: bytes) -> None:
        """Remove the payload classes of an actor that is gone."""
        for cls in self._added.pop(actor):
            name = _name_of(cls)
            left = self._classes[name] - Counter({cls: 1})
            if left:
                self._classes[name] = left
            else:
                del self._classes[name]

    def _compare_sent(self, cls: type) -> None:
        """Compare a class that is sent for the first time with what other nodes announced."""
        name = _name_of(cls)
        self._sent.setdefault(name, cls)
        for node, announced in self._announced.items():
            if name in announced:
                self._compare(node, name, announced[name])

    def fingerprint(self, identifier: MessageIdentifier) -> int | None:
        """Return the fingerprint of the payload that the actors have under a name; None if it is not known."""
        classes = self._classes.get((identifier.identity, identifier.version), ())
        return next((fingerprint(cls) for cls in classes), None)

    # -- other nodes ---------------------------------------------------------------------------------------------------

    def compare(self, node: bytes, announced: Mapping[MessageIdentifier, int]) -> None:
        """Compare the fingerprints that another node announced with the classes of this node, and log what differs."""
        known = self._announced.get(node, {})
        by_name = {(identifier.identity, identifier.version): theirs for identifier, theirs in announced.items()}
        together = {**known, **by_name}
        if len(together) > MOST_ANNOUNCED:
            together = by_name
        self._announced[node] = _shared(frozenset(together.items()))
        for name, theirs in by_name.items():
            self._compare(node, name, theirs)

    def forget(self, node: bytes) -> None:
        """Forget a node that is gone."""
        self._announced.pop(node, None)
        self._reported.pop(node, None)

    def _compare(self, node: bytes, name: Name, theirs: int) -> None:
        classes = [*self._classes.get(name, ()), *([self._sent[name]] if name in self._sent else [])]
        known = [value for value in map(fingerprint, classes) if value is not None]
        ours = next((value for value in known if value != theirs), None)
        if ours is None or name in self._reported.get(node, ()):
            return
        self._reported.setdefault(node, set()).add(name)
        log.warning(
            "node %s has another schema of %s: its fingerprint is %s, here it is %s. Messages may fail or lose fields: "
            "compare what `hopline schema` prints for both, and give the changed class a new version",
            printable_name(node),
            MessageIdentifier(*name),
            fingerprint_text(theirs),
            fingerprint_text(ours),
        )


@lru_cache(_CACHED_ANNOUNCEMENTS)
def _shared(announced: frozenset[tuple[Name, int]]) -> Mapping[Name, int]:
    """Return what a node announced, as one object for all nodes that announce the same: there may be thousands."""
    return dict(announced)


def _name_of(cls: type) -> Name:
    identifier = payload_type(cls).identifier
    return identifier.identity, identifier.version


def _require_equal(first: type, second: type) -> None:
    one, other = fingerprint(first), fingerprint(second)
    if first is second or one is None or other is None or one == other:
        return
    kind = MessageIdentifier(*_name_of(first))
    raise SchemaConflictError(str(kind), first, second, differences(first, second))
