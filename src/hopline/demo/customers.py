"""The node of the shop front: it prices orders, and its customers place them. Runs in a process of its own.

``python -m hopline.demo.customers CONFIG ORDERS RATE`` tells how it goes on standard output, a JSON object a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from hopline.config import read_configuration
from hopline.demo.shop import CATALOGUE_PERIOD, PRICES, Catalogue, Placed, Pricing, Shipped
from hopline.message import AnswerTimeoutError, DeliveryError, HoplineError
from hopline.node import Node

PATIENCE = 2.0  # seconds that a customer waits for a parcel
NEWS_PERIOD = 0.25  # seconds between two words on how it goes
DEADLINE = 20.0  # seconds until the other nodes must be there


async def _order(node: Node, number: int, chance: Random, told: Counter[str]) -> None:
    order = Placed(number, chance.choice(sorted(PRICES)), chance.randint(1, 4), f"card-{chance.randrange(10_000):04d}")
    told["placed"] += 1
    try:
        await node.hub.send(order, callback=Shipped, timeout=PATIENCE)
    except AnswerTimeoutError:
        told["timed out"] += 1
    except DeliveryError:
        told["undeliverable"] += 1
    except HoplineError:
        told["failed"] += 1
    else:
        told["shipped"] += 1


async def _tell(told: Counter[str]) -> None:
    while True:
        _say({"told": told})
        await asyncio.sleep(NEWS_PERIOD)


async def _publish_catalogues(node: Node) -> None:
    number = 0
    while True:
        number += 1
        await node.hub.broadcast(Catalogue(number, PRICES))
        await asyncio.sleep(CATALOGUE_PERIOD)


async def run(config: Path, orders: int, rate: float) -> None:
    """Open the shop, place so many orders at so many a second, and wait for what comes of them."""
    configuration = read_configuration(config, os.environ)
    node = Node(
        Pricing(),
        identity=configuration.identity,
        settings=configuration.settings,
        network=configuration.network(),
        capture=configuration.capture(),
    )
    told: Counter[str] = Counter()
    chance = Random(3)  # noqa: S311 - customers, not keys
    async with node, asyncio.timeout(DEADLINE + orders / rate + 10 * PATIENCE):
        while len(node.known_nodes) < 2:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)
        _say({"ready": node.uri})
        news = [asyncio.create_task(_tell(told)), asyncio.create_task(_publish_catalogues(node))]
        start = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as shop:
            for number in range(orders):
                due = start + number / rate
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
                shop.create_task(_order(node, number, chance, told))
        for task in news:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        _say({"told": told})


def _say(news: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
