"""The announcements and withdrawals of this node that have not come back from the rendezvous server.

The rendezvous server relays every message to all nodes, the sender included. So receiving its own announcement proves
to a node that the server has relayed it. Until then the node publishes it again. Two rules keep that safe:

* An actor is announced under its identity, but a message is withdrawn without naming an actor, and only when no other
  actor of the node handles it. Where a withdrawal names an actor, the reference removes the node from a message's list
  only for the actor's last message. In the other lists the node stays even after it is gone, and is still picked in its
  turn.
* A message that is handled again must not be withdrawn once more: announcing a route cancels an unconfirmed withdrawal,
  and withdrawing it cancels an unconfirmed announcement.

Other nodes may have been between two servers at that moment and missed it. When a server fails, all nodes are. If each
of them asked all others for what it missed, N nodes would cause N * N answers. So the one that made a change publishes
it once more, `repeat_after` later, and a node that was away for less time need not ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import TypeAlias

from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.message import MessageIdentifier, get_logger
from hopline.routing import Route

log = get_logger("hopline.cluster")

_Key: TypeAlias = tuple[str, Route]  # a domain, and a route in it

ANY_ACTOR = b""  # the receiver of a withdrawal that applies to all actors of the node


def of_any_actor(identifier: MessageIdentifier) -> Route:
    """Return the route of a message to any actor of the node that handles it."""
    return Route(ANY_ACTOR, identifier)


class Announcements:
    """The unconfirmed announcements and withdrawals of one node, each in its domain.

    Args:
        repeat_after: Seconds from the confirmation of a change until it is published once more.
    """

    def __init__(self, repeat_after: float) -> None:
        self._repeat_after = repeat_after
        self._is_announced: dict[_Key, bool] = {}  # False: withdrawn
        self._repeat_at: dict[_Key, tuple[float, bool]] = {}  # the earliest first
        self._repeated: set[_Key] = set()  # of the unconfirmed ones
        self._waiting_since: float | None = None  # for the first confirmation
        self._is_reported = False

    def __len__(self) -> int:
        return len(self._is_announced)

    def announce(self, domain: str, route: Route) -> None:
        """Record that a route is to be announced."""
        if route.identifier is not None:
            self._cancel((domain, of_any_actor(route.identifier)))
        self._cancel((domain, route))
        self._is_announced[domain, route] = True

    def withdraw(self, domain: str, route: Route, *, is_handled: bool) -> None:
        """Record that a route is to be withdrawn.

        Args:
            domain: The domain in which it was announced.
            route: The route.
            is_handled: Whether another actor of this node handles the same message, so that only the announcement
                is cancelled.
        """
        self._cancel((domain, route))
        if is_handled:
            return
        if route.identifier is not None:
            route = of_any_actor(route.identifier)
        self._cancel((domain, route))
        self._is_announced[domain, route] = False

    def _cancel(self, key: _Key) -> None:
        self._is_announced.pop(key, None)
        self._repeat_at.pop(key, None)
        self._repeated.discard(key)

    def confirm(self, domain: str, routes: Iterable[Route], now: float, *, is_announced: bool) -> None:
        """Record that routes came back from the rendezvous server, as announced or as withdrawn."""
        for route in routes:
            key = (domain, route)
            if self._is_announced.get(key) is not is_announced:
                continue
            is_repetition = key in self._repeated
            self._cancel(key)
            if not is_repetition:
                self._repeat_at[key] = (now + self._repeat_after, is_announced)
            self._waiting_since = None
            self._is_reported = False

    def repeat_due(self, now: float) -> bool:
        """Make the changes unconfirmed again that are to be repeated now; return whether there are any."""
        due = list(takewhile(lambda entry: entry[1][0] <= now, self._repeat_at.items()))
        for key, (_, is_announced) in due:
            self._cancel(key)
            self._is_announced[key] = is_announced
            self._repeated.add(key)
        return bool(due)

    def report_if_unconfirmed(self, now: float, timeout: float, server: RendezvousAddress) -> None:
        """Log an error if nothing has come back for `timeout` seconds, once until something does.

        Call it after each time that something was published, while the server is heard.
        """
        if self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= timeout and not self._is_reported:
            self._is_reported = True
            log.error(
                "nothing that this node announced came back from the rendezvous server %s within %g s: other nodes do "
                "not find it. Check that %s is where the server takes messages and can be reached from here, that node "
                "and server have the same keys for encryption, and that the server reads the node's wire_format.",
                server.broadcast_uri,
                timeout,
                server.unicast_uri,
            )

    @property
    def is_confirmed(self) -> bool:
        """Whether everything has come back at least once: a repetition that is under way changes nothing."""
        return self._is_announced.keys() <= self._repeated

    @property
    def is_withdrawn(self) -> bool:
        """Whether every withdrawal has come back at least once."""
        return all(is_announced or key in self._repeated for key, is_announced in self._is_announced.items())

    def grouped(self) -> dict[tuple[str, bool], list[Route]]:
        """Return the unconfirmed routes by domain and by whether they are announced or withdrawn."""
        groups: dict[tuple[str, bool], list[Route]] = {}
        for (domain, route), is_announced in self._is_announced.items():
            group = groups.setdefault((domain, is_announced), [])
            group.append(route)
        return groups
