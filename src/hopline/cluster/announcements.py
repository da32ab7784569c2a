"""What a node has said of its own routes and has not heard coming back yet.

The rendezvous server publishes what nodes say, to its speaker too: hearing it come back is the proof that others heard
it. Until then it is said again. Two rules keep that safe:

* An actor is announced under its identity, but a message is withdrawn without naming an actor, and only when no other
  actor of the node handles it. Where a withdrawal names an actor, the reference takes the node out of a message's list
  only for the actor's last message; in the other lists the node stays even when it is gone, and is picked in its turn.
* A message that is handled anew must not be withdrawn once more: announcing takes back a withdrawal that nobody has
  heard, and withdrawing takes back the announcement.
"""

from __future__ import annotations

from collections.abc import Iterable

from hopline.cluster.rendezvous import RendezvousAddress
from hopline.message import MessageIdentifier, get_logger
from hopline.routing import Route

log = get_logger("hopline.cluster")

ANY_ACTOR = b""  # the receiver of a withdrawal that is about all actors of the node


def of_any_actor(identifier: MessageIdentifier) -> Route:
    """Return the route of a message to whichever actors of the node handle it."""
    return Route(ANY_ACTOR, identifier)


class Announcements:
    """The announcements and withdrawals of one node that are unconfirmed, each in its domain."""

    def __init__(self) -> None:
        self._lives_here: dict[tuple[str, Route], bool] = {}
        self._waiting_since: float | None = None  # for anything to come back
        self._is_reported = False

    def __len__(self) -> int:
        return len(self._lives_here)

    def announce(self, domain: str, route: Route) -> None:
        """Note that a route was, or is to be, announced."""
        if route.identifier is not None:
            self._lives_here.pop((domain, of_any_actor(route.identifier)), None)
        self._lives_here[domain, route] = True

    def withdraw(self, domain: str, route: Route, *, is_handled: bool) -> None:
        """Note that a route is gone, and for an actor's message whether another actor of the node still handles it."""
        self._lives_here.pop((domain, route), None)
        if not is_handled:
            withdrawn = route if route.identifier is None else of_any_actor(route.identifier)
            self._lives_here[domain, withdrawn] = False

    def confirm(self, domain: str, routes: Iterable[Route], *, lives_here: bool) -> None:
        """Note what came back through the rendezvous server."""
        for route in routes:
            if self._lives_here.get((domain, route)) is lives_here:
                del self._lives_here[domain, route]
                self._waiting_since = None
                self._is_reported = False

    def report_if_unheard(self, now: float, patience: float, server: RendezvousAddress) -> None:
        """Log an error when nothing came back for too long, once each time that this begins.

        Call it whenever something was said, while the server is heard.
        """
        if self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= patience and not self._is_reported:
            self._is_reported = True
            log.error(
                "nothing that this node announced came back from the rendezvous server %s within %g s: other nodes do "
                "not find it. Check that %s is where the server takes messages and can be reached from here, that node "
                "and server have the same keys for encryption, and that the server reads the node's wire_format.",
                server.broadcast_uri,
                patience,
                server.unicast_uri,
            )

    @property
    def is_withdrawn(self) -> bool:
        """Return whether all withdrawals came back."""
        return all(self._lives_here.values())

    def grouped(self) -> dict[tuple[str, bool], list[Route]]:
        """Return what is unconfirmed, by domain and by whether it lives here."""
        groups: dict[tuple[str, bool], list[Route]] = {}
        for (domain, route), lives_here in self._lives_here.items():
            groups.setdefault((domain, lives_here), []).append(route)
        return groups
