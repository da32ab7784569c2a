"""An attacker without a key, who sends messages to one node directly. Runs in a process of its own.

``python -m hopline.demo.forger ADDRESS DOMAIN CAPTURES NODE`` writes what was sent to standard output, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
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
LINGER = 2.0  # seconds for the last messages to be sent
RECORD_TIMEOUT = 15.0  # seconds to wait for records that can be replayed
_POLL_INTERVAL = 0.2


def _order(number: int) -> Message:
    return to_message(Reserved(900_000 + number, "desk", 40, "card-0000", cents=1))


def _encoded(messages: Sequence[Message]) -> list[Frames]:
    return [encode(message, WireFormat.V5) for message in messages]


def _signed_by_attacker(domain: str, count: int) -> list[Frames]:
    """Return orders that are signed with a key of the attacker's own."""
    security = DomainSecurity([Domain(domain, new_key(), IDENTITIES)], clock=time.time)
    return _encoded([security.sign(_order(number)) for number in range(count)])


def _unsigned(domain: str) -> list[Frames]:
    return _encoded([_order(number).clone(domain=domain) for number in range(UNSIGNED)])


def _garbled() -> list[Frames]:
    """Return orders of which every other frame is missing."""
    return [encode(_order(number), WireFormat.V5)[number + 1 :: 2] for number in range(GARBLED)]


def _recorded(captures: Path, node: str) -> list[Frames]:
    """Return messages that the node received before, from its own capture: the bytes that are on the wire."""
    deadline = time.monotonic() + RECORD_TIMEOUT
    is_received = (ds.field("event") == Event.RECEIVED.value) & (ds.field("node") == node)
    while time.monotonic() < deadline:
        segments = sorted(captures.glob(f"*/{node}-*.parquet"))
        if segments:
            dataset = ds.dataset(segments, format="parquet")
            table = dataset.to_table(columns=["frames"], filter=is_received)
            messages = [frames for frames in table["frames"].to_pylist() if len(frames) > 1]
            if len(table) >= REPLAYED:
                return messages[:REPLAYED]
        time.sleep(_POLL_INTERVAL)
    return []


async def run(address: str, domain: str, captures: Path, node: str) -> None:
    """Send forged, foreign, unsigned, replayed and garbled messages to one node."""
    transport = open_transport(SocketSettings(), None)
    sender = transport.sender(address, capacity=1_000, identity=NAME)
    attacks: dict[str, list[Frames]] = {
        "forged": _signed_by_attacker(domain, FORGED),
        "of a foreign domain": _signed_by_attacker("treasury", FOREIGN),
        "unsigned": _unsigned(domain),
        "replayed": await asyncio.to_thread(_recorded, captures, node),
        "garbled": _garbled(),
    }
    for messages in attacks.values():
        for frames in messages:
            sender.send(frames)
            await asyncio.sleep(0.01)
    sender.close(LINGER)
    counts = {attack: len(messages) for attack, messages in attacks.items()}
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
