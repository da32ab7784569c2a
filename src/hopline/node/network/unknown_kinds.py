"""A word in the log, at once, about a message that no node handles while one handles something similar."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hopline.actors import flow_log
from hopline.message import Message, MessageIdentifier
from hopline.routing.suggestions import close_kinds, question

log = flow_log("hopline.network")

_PERIOD = 1.0  # seconds between two comparisons, which take up to some milliseconds
_MOST_LOGGED = 100  # kinds


class UnknownKinds:
    """Logs each unknown kind once. The message waits for a route meanwhile, because one may still be announced."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._compare_at = 0.0
        self._logged: set[MessageIdentifier] = set()

    def note(self, message: Message, known: Iterable[MessageIdentifier]) -> None:
        """Log what the sender of a message on this node may have meant, if the message is to go to any handler."""
        kind, now = message.identifier, self._clock()
        is_from_here = not message.hops and not message.receiver_node_identity
        if not is_from_here or kind in self._logged or now < self._compare_at or len(self._logged) >= _MOST_LOGGED:
            return
        self._compare_at = now + _PERIOD
        suggested = close_kinds(kind, known)
        if suggested:
            self._logged.add(kind)
            log.warning("no known node handles %s; %s", kind, question(suggested), flow=message)
