"""When each route of another node was last advertised, so that routes whose withdrawal was lost expire.

A withdrawal is lost on nodes that are cut off when it is published. So is the end of a node that restarts at once under
the same identity. But a node that goes on answering requests without naming a route does not have that route any more.

Time is counted in rounds: in each, every node is asked for all its routes, at least once. A route expires when its node
has answered in the latest round and the route has been missing for `MISSED_ROUNDS`. A node that has not answered at all
for `SILENT_ROUNDS` is probably gone: nobody listens for the heartbeats of a node that it does not send to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hopline.message import MessageIdentifier
from hopline.routing import Route

MISSED_ROUNDS = 2  # one answer may be lost, or answer another question
SILENT_ROUNDS = 3  # where many nodes answer at once, several answers may be lost


class RouteFreshness:
    """Remembers for every route of every node the round in which it was last advertised."""

    def __init__(self) -> None:
        self._round = 0
        self._advertised: dict[bytes, dict[Route, int]] = {}
        self._answered: dict[bytes, int] = {}  # the latest round of each node

    def record(self, node: bytes, routes: Iterable[Route]) -> None:
        """Record that a node advertises these routes in the current round."""
        rounds = self._advertised.setdefault(node, {})
        for route in routes:
            rounds[route] = self._round
        self._answered[node] = self._round

    def is_later_round(self, node: bytes) -> bool:
        """Return whether a node has advertised routes, but none in the current round yet."""
        return self._answered.get(node, self._round) < self._round

    def has(self, node: bytes, route: Route) -> bool:
        """Return whether a node has advertised a route."""
        advertised = self._advertised.get(node, ())
        return route in advertised

    def count_with(self, node: bytes, routes: Iterable[Route]) -> int:
        """Return how many routes a node would have with these. The cost depends on these alone."""
        advertised = self._advertised.get(node, {})
        added = {route for route in routes if route not in advertised}
        return len(advertised) + len(added)

    def forget(self, node: bytes, route: Route | None = None) -> None:
        """Remove a route, or the whole node."""
        if route is None:
            self._advertised.pop(node, None)
            self._answered.pop(node, None)
            return
        advertised = self._advertised.get(node, {})
        advertised.pop(route, None)

    def forget_messages(self, node: bytes, identifiers: Collection[MessageIdentifier | None]) -> None:
        """Remove messages of a node, whichever of its actors handle them."""
        advertised = self._advertised.get(node, {})
        removed = [route for route in advertised if route.identifier in identifiers]
        for route in removed:
            del advertised[route]

    def unanswering(self) -> list[bytes]:
        """Return the nodes that have not been heard of for so many rounds that they are probably gone."""
        oldest_kept = self._round - SILENT_ROUNDS + 1
        return [node for node, answered in self._answered.items() if answered < oldest_kept]

    def next_round(self) -> list[tuple[bytes, Route]]:
        """Begin another round; remove and return the routes that have expired."""
        latest = self._round
        self._round += 1
        oldest_kept = latest - MISSED_ROUNDS + 1
        expired = []
        for node, rounds in self._advertised.items():
            if self._answered[node] < latest:  # no answer in the latest round, which may have been lost
                continue
            stale = [route for route, advertised_in in rounds.items() if advertised_in < oldest_kept]
            expired += [(node, route) for route in stale]
        for node, route in expired:
            self.forget(node, route)
        return expired
