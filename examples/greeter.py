"""An application for ``hopline node``: an actor that greets.

``hopline node --app examples.greeter:Greeter --embedded`` in one terminal or several, and in another
``hopline send Greet '{"name": "world"}' --callback Greeting``.
"""

from __future__ import annotations

from hopline import Actor, Payload, handler


class Greet(Payload):
    """Somebody wants to be greeted."""

    name: str


class Greeting(Payload):
    """And was."""

    text: str


class Greeter(Actor):
    """Greets."""

    @handler
    def greet(self, request: Greet) -> Greeting:
        """Greet."""
        return Greeting(f"Hello, {request.name}!")
