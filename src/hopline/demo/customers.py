"""The front node of the shop: it prices orders, and its customers place them. Runs in a process of its own.

``python -m hopline.demo.customers CONFIG ORDERS RATE`` reports the results so far on standard output, as JSON lines.
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

ORDER_TIMEOUT = 2.0  # seconds that a customer waits for the answer
REPORT_PERIOD = 0.25  # seconds between two reports
START_TIMEOUT = 20.0  # seconds until the other nodes must be known


async def _order(node: Node, number: int, random: Random, counts: Counter[str]) -> None:
    sku = random.choice(sorted(PRICES))
    pieces = random.randint(1, 4)
    card_number = random.randrange(10_000)
    order = Placed(number, sku, pieces, f"card-{card_number:04d}")
    counts["placed"] += 1
    try:
        await node.hub.send(order, callback=Shipped, timeout=ORDER_TIMEOUT)
    except AnswerTimeoutError:
        counts["timed out"] += 1
    except DeliveryError:
        counts["undeliverable"] += 1
    except HoplineError:
        counts["failed"] += 1
    else:
        counts["shipped"] += 1


async def _report_counts(counts: Counter[str]) -> None:
    while True:
        _write({"counts": counts})
        await asyncio.sleep(REPORT_PERIOD)


async def _publish_catalogues(node: Node) -> None:
    number = 0
    while True:
        number += 1
        await node.hub.broadcast(Catalogue(number, PRICES))
        await asyncio.sleep(CATALOGUE_PERIOD)


async def run(config: Path, orders: int, rate: float) -> None:
    """Place orders at a rate per second, and wait until each of them is answered or has timed out."""
    configuration = read_configuration(config, os.environ)
    node = Node(
        Pricing(),
        identity=configuration.identity,
        settings=configuration.settings,
        network=configuration.network(),
        capture=configuration.capture(),
    )
    counts: Counter[str] = Counter()
    random = Random(3)  # noqa: S311 - orders, not keys
    loop = asyncio.get_running_loop()
    run_time = orders / rate
    timeout = START_TIMEOUT + run_time + 10 * ORDER_TIMEOUT
    async with node, asyncio.timeout(timeout):
        while len(node.known_nodes) < 2:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)
        _write({"ready": node.uri})
        background = [
            asyncio.create_task(_report_counts(counts)),
            asyncio.create_task(_publish_catalogues(node)),
        ]
        start = loop.time()
        async with asyncio.TaskGroup() as customers:
            for number in range(orders):
                due = start + number / rate
                await asyncio.sleep(max(0.0, due - loop.time()))
                customers.create_task(_order(node, number, random, counts))
        for task in background:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        _write({"counts": counts})


def _write(report: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        config, orders, rate = sys.argv[1:]
        asyncio.run(run(Path(config), int(orders), float(rate)))
