"""Ask an actor, and get its answer, its error, or to know that nobody is there."""

from __future__ import annotations

import asyncio
import logging

from hopline import Actor, ActorError, DeliveryError, Node, Payload, handler


class Divide(Payload):
    """A question."""

    dividend: int
    divisor: int


class Quotient(Payload):
    """Its answer."""

    value: float


class Multiply(Payload):
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
        answer = await node.hub.send(Divide(42, 8), callback=Quotient)
        print(f"42 / 8 = {answer.value}")
        try:
            await node.hub.send(Divide(1, 0), callback=Quotient)
        except ActorError as error:
            print(f"1 / 0 failed where it was calculated: {error}")
        try:
            await node.hub.send(Multiply((6, 7)), callback=Quotient)
        except DeliveryError as error:
            print(f"6 * 7 reached nobody: {error}")
        print(f"every message accounted for: {node.stats().is_balanced}")


if __name__ == "__main__":
    logging.getLogger("hopline").setLevel(logging.CRITICAL)  # what fails here is meant to, and the caller is told
    asyncio.run(main())
