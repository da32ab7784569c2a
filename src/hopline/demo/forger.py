"""An attacker without a key that sends messages to one node directly. Runs in a process of its own.

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
# Messages of each kind of attack.
FORGED = 12
FOREIGN = 5
UNSIGNED = 4
REPLAYED = 6
GARBLED = 3
LINGER = 2.0  # seconds for the last messages to be sent
RECORD_TIMEOUT = 15.0  # seconds to wait for records that can be replayed
_POLL_INTERVAL = 0.2


def _order(number: int) -> Message:
    order = Reserved(900_000 + number, "desk", 40, "card-0000", cents=1)
    return to_message(order)


def _encoded(message: Message) -> Frames:
    return encode(message, WireFormat.V5)


def _signed_by_attacker(domain: str, count: int) -> list[Frames]:
    """Return orders that are signed with a key of the attacker's own."""
    forged_domain = Domain(domain, new_key(), IDENTITIES)
    security = DomainSecurity([forged_domain], clock=time.time)
    messages = []
    for number in range(count):
        signed = security.sign(_order(number))
        messages.append(_encoded(signed))
    return messages


def _unsigned(domain: str) -> list[Frames]:
    messages = []
    for number in range(UNSIGNED):
        unsigned = _order(number).clone(domain=domain)
        messages.append(_encoded(unsigned))
    return messages


def _garbled() -> list[Frames]:
    """Return orders of which every other frame is missing."""
    messages = []
    for number in range(GARBLED):
        frames = _encoded(_order(number))
        messages.append(frames[number + 1 :: 2])
    return messages


def _recorded(captures: Path, node: str) -> list[Frames]:
    """Return messages that the node received before, from its own capture: the bytes that are on the wire."""
    deadline = time.monotonic() + RECORD_TIMEOUT
    while time.monotonic() < deadline:
        segments = sorted(captures.glob(f"*/{node}-*.parquet"))
        received = _received(segments, node) if segments else []
        if len(received) >= REPLAYED:
            messages = [frames for frames in received if len(frames) > 1]
            return messages[:REPLAYED]
        time.sleep(_POLL_INTERVAL)
    return []


def _received(segments: Sequence[Path], node: str) -> list[Frames]:
    is_received = ds.field("event") == Event.RECEIVED.value
    is_at_node = ds.field("node") == node
    dataset = ds.dataset(segments, format="parquet")
    table = dataset.to_table(columns=["frames"], filter=is_received & is_at_node)
    received: list[Frames] = table["frames"].to_pylist()
    return received


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
    address, domain, captures, node = sys.argv[1:]
    asyncio.run(run(address, domain, Path(captures), node))
