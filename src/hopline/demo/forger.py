"""Somebody who has no key and wants parcels. Runs in a process of its own, and speaks to one node directly.

``python -m hopline.demo.forger ADDRESS DOMAIN CAPTURES`` tells what was sent on standard output, as a JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds

from hopline.capture.records import Event
from hopline.demo.shop import IDENTITIES, Reserved
from hopline.message import Message, WireFormat, to_message
from hopline.security import Domain, DomainSecurity, new_key
from hopline.transport import Frames, SocketSettings, open_transport
from hopline.wire import encode

NAME = b"mallory"
FORGED, FOREIGN, UNSIGNED, REPLAYED, GARBLED = 12, 5, 4, 6, 3
LINGER = 2.0  # seconds for what was sent to leave
PATIENCE = 15.0  # seconds to wait for something to listen to
_LOOK = 0.2


def _order(number: int) -> Message:
    return to_message(Reserved(900_000 + number, "desk", 40, "card-0000", cents=1))


def _signed(domain: str, count: int) -> Iterator[Message]:
    """Sign with a key of one's own, and hope."""
    security = DomainSecurity([Domain(domain, new_key(), IDENTITIES)], clock=time.time)
    return (security.protect(_order(number)) for number in range(count))


def _overheard(captures: Path, node: str) -> list[Frames]:
    """Take what the node got before, from its own segments: who listens to the wire has the same."""
    for _ in range(round(PATIENCE / _LOOK)):
        segments = sorted(captures.glob(f"*/{node}-*.parquet"))
        if segments:
            received = (ds.field("event") == Event.RECEIVED.value) & (ds.field("node") == node)
            table = ds.dataset(segments, format="parquet").to_table(columns=["frames"], filter=received)
            if len(table) >= REPLAYED:
                return [frames for frames in table["frames"].to_pylist() if len(frames) > 1][:REPLAYED]
        time.sleep(_LOOK)
    return []


async def run(address: str, domain: str, captures: Path, node: str) -> None:
    """Send forged, foreign, unsigned, replayed and garbled messages to one node."""
    transport = open_transport(SocketSettings(), None)
    sender = transport.sender(address, capacity=1_000, identity=NAME)
    attacks: dict[str, list[Frames]] = {
        "forged": [encode(message, WireFormat.V5) for message in _signed(domain, FORGED)],
        "of a foreign domain": [encode(message, WireFormat.V5) for message in _signed("treasury", FOREIGN)],
        "unsigned": [encode(_order(number).clone(domain=domain), WireFormat.V5) for number in range(UNSIGNED)],
        "replayed": await asyncio.to_thread(_overheard, captures, node),
        "garbled": [encode(_order(number), WireFormat.V5)[number + 1 :: 2] for number in range(GARBLED)],
    }
    for frames in attacks.values():
        for one in frames:
            sender.send(one)
            await asyncio.sleep(0.01)
    sender.close(LINGER)
    sys.stdout.write(json.dumps({what: len(frames) for what, frames in attacks.items()}) + "\n")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
