"""An application for ``hopline node``: an actor that greets.

``hopline node --app examples.greeter:Greeter --embedded`` in one terminal or several, and in another
``hopline send Greet '{"name": "world"}' --callback Greeting``.
"""

from __future__ import annotations

from hopline import Actor, Payload, Request, handler


class Greeting(Payload):
    """A greeting."""

    text: str


class Greet(Request[Greeting]):
    """Somebody wants one."""

    name: str


class Greeter(Actor):
    """Greets."""

    @handler
    def greet(self, request: Greet) -> Greeting:
        """Greet."""
        return Greeting(f"Hello, {request.name}!")
