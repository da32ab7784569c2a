"""Which payload classes a node uses, and whether other nodes expect the same bodies.

On one node, two classes of one name and version must have the same shape: `add` refuses an actor that breaks this rule.
Between nodes it cannot be enforced, because each is started by itself: fingerprints travel with announcements, and a
difference is logged, once for each peer and kind. A fingerprint is a hint from the network, which nothing relies on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from hopline.message import MessageIdentifier, SchemaConflictError, Version, get_logger, payload_type, printable_name
from hopline.schemas.fingerprint import differences, fingerprint, fingerprint_text

log = get_logger("hopline.schemas")

Name: TypeAlias = tuple[bytes, Version]  # partitions of a message have one schema


class SchemaBook:
    """The payload classes of one node by name, and the peers that expect other bodies."""

    def __init__(self) -> None:
        self._classes: dict[Name, Counter[type]] = {}  # how many actors use each class
        self._added: dict[bytes, dict[Name, Counter[type]]] = {}  # by actor
        self._reported: dict[bytes, set[Name]] = {}  # by node: the names whose difference was logged

    # -- this node -----------------------------------------------------------------------------------------------------

    def add(self, actor: bytes, classes: Iterable[type]) -> None:
        """Add the payload classes of an actor.

        Raises:
            SchemaConflictError: A class has the name of one that is used already, and another schema.
        """
        new: dict[Name, Counter[type]] = {}
        for cls in classes:
            name = _name_of(cls)
            for other in (*self._classes.get(name, ()), *new.get(name, ())):
                _require_equal(other, cls)
            new.setdefault(name, Counter())[cls] += 1
        for name, users in new.items():
            self._classes.setdefault(name, Counter()).update(users)
        self._added[actor] = new

    def remove(self, actor: bytes) -> None:
        """Remove the payload classes of an actor that is gone."""
        for name, users in self._added.pop(actor).items():
            left = self._classes[name] - users
            if left:
                self._classes[name] = left
            else:
                del self._classes[name]

    def fingerprint(self, identifier: MessageIdentifier) -> int | None:
        """Return the fingerprint of the payload that this node has under a name; None if it is not known."""
        classes = self._classes.get((identifier.identity, identifier.version), ())
        return next((fingerprint(cls) for cls in classes), None)

    # -- other nodes ---------------------------------------------------------------------------------------------------

    def compare(self, node: bytes, announced: Mapping[MessageIdentifier, int]) -> None:
        """Compare the fingerprints that another node announced with those of this node, and log what differs."""
        for identifier, theirs in announced.items():
            ours = self.fingerprint(identifier)
            if ours is None or ours == theirs:
                continue
            name = identifier.identity, identifier.version
            reported = self._reported.setdefault(node, set())
            if name not in reported:
                reported.add(name)
                _report(node, MessageIdentifier(*name), theirs, ours)

    def forget(self, node: bytes) -> None:
        """Forget a node that is gone."""
        self._reported.pop(node, None)


def _report(node: bytes, kind: MessageIdentifier, theirs: int, ours: int) -> None:
    log.warning(
        "node %s has another schema of %s: its fingerprint is %s, here it is %s. Messages may fail or lose fields: "
        "compare what `hopline schema` prints for both, and give the changed class a new version",
        printable_name(node),
        kind,
        fingerprint_text(theirs),
        fingerprint_text(ours),
    )


def _name_of(cls: type) -> Name:
    identifier = payload_type(cls).identifier
    return identifier.identity, identifier.version


def _require_equal(first: type, second: type) -> None:
    if first is second or fingerprint(first) in (None, fingerprint(second)) or fingerprint(second) is None:
        return
    kind = MessageIdentifier(*_name_of(first))
    raise SchemaConflictError(str(kind), first, second, differences(first, second))
