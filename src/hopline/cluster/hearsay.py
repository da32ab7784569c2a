"""What others say they have, and whether they still say it: a route whose end was not heard must not stay for ever."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hopline.message import MessageIdentifier
from hopline.routing import Route

MISSED_TURNS = 2  # one answer may be lost, or be to another question


class Hearsay:
    """Remembers when each route was said last, in turns: with each, everybody is asked for all that he has.

    A message that takes a route back is lost on those who are cut off when it is sent; so is the end of a node that
    comes back at once under the same identity. Who goes on answering without naming a route does not have it any more.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._said: dict[bytes, dict[Route, int]] = {}

    def heard(self, node: bytes, routes: Iterable[Route]) -> None:
        """Note that a node says it has these routes."""
        self._said.setdefault(node, {}).update(dict.fromkeys(routes, self._turn))

    def knows(self, node: bytes, route: Route) -> bool:
        """Return whether a node has said that it has a route."""
        return route in self._said.get(node, ())

    def count_with(self, node: bytes, routes: Iterable[Route]) -> int:
        """Return how many routes a node would have with these: at a cost proportional to these alone."""
        said = self._said.get(node, {})
        return len(said) + len({route for route in routes if route not in said})

    def forget(self, node: bytes, route: Route | None = None) -> None:
        """Forget a route, or the whole node."""
        if route is None:
            self._said.pop(node, None)
        else:
            self._said.get(node, {}).pop(route, None)

    def forget_messages(self, node: bytes, identifiers: Collection[MessageIdentifier | None]) -> None:
        """Forget messages of a node, whichever of its actors were said to handle them."""
        said = self._said.get(node, {})
        for route in [route for route in said if route.identifier in identifiers]:
            del said[route]

    def next_turn(self) -> list[tuple[bytes, Route]]:
        """Begin another turn, and give the routes that are said no more, by nodes that still say something."""
        self._turn += 1
        latest = self._turn - 1
        stale = [
            (node, route)
            for node, routes in self._said.items()
            if latest in routes.values()
            for route, turn in routes.items()
            if turn <= latest - MISSED_TURNS
        ]
        for node, route in stale:
            self.forget(node, route)
        return stale
