"""Ask an actor, and get its answer, its error, or to know that nobody is there."""

from __future__ import annotations

import asyncio
import logging

from hopline import Actor, ActorError, DeliveryError, Node, Payload, Request, handler


class Quotient(Payload):
    """An answer."""

    value: float


class Divide(Request[Quotient]):
    """Its question."""

    dividend: int
    divisor: int


class Multiply(Request[Quotient]):
    """A question that nobody here answers."""

    factors: tuple[int, int]


class Calculator(Actor):
    """Divides."""

    @handler
    def divide(self, request: Divide) -> Quotient:
        """Answer a question. What it raises, the caller gets."""
        return Quotient(request.dividend / request.divisor)


async def main() -> None:
    """Ask three questions."""
    async with Node(Calculator()) as node:
        answer = await node.hub.ask(Divide(42, 8))
        print(f"42 / 8 = {answer.value}")
        try:
            await node.hub.ask(Divide(1, 0))
        except ActorError as error:
            print(f"1 / 0 failed where it was calculated: {error}")
        try:
            await node.hub.ask(Multiply((6, 7)))
        except DeliveryError as error:
            print(f"6 * 7 reached nobody: {error}")
        print(f"every message accounted for: {node.stats().is_balanced}")


if __name__ == "__main__":
    logging.getLogger("hopline").setLevel(logging.CRITICAL)  # what fails here is meant to, and the caller is told
    asyncio.run(main())
