"""A peer on raw sockets that asks faster than anybody reads: every request is answered, and no link stalls.

Its window is larger than all that a link and libzmq hold, so the node's answers wait for room again and again.
"""

from __future__ import annotations

import asyncio
import time

import pytest
import zmq

from hopline import to_message

from .frames import V5, write
from .processes import Fleet, until
from .program import Work
from .scripted import KinoNode

COUNT, WINDOW = 20_000, 10_000
STALLED = 20.0  # seconds without an answer; less than the 30 s for which a message waits for room
CALLBACK = ((b"", 1, b"Done"), (b"", 1, b"KINO.EXCEPTION"))


async def ask(peer: KinoNode, node: bytes, uri: str, count: int, window: int) -> float:
    """Send requests with so many under way, and return the longest time for which no answer came."""
    body = to_message(Work(1)).body
    request = peer.request(body).but(identity=b"Work", callbacks=CALLBACK, ttl=0, trace=0)
    frames = [node, b"", *write(V5, request)]
    peer.backend.connect(uri)
    peer.backend.sndhwm = peer.frontend.rcvhwm = 0
    sent = answered = 0
    last, longest = time.monotonic(), 0.0
    while answered < count:
        progress = False
        while sent < count and sent - answered < window:
            try:
                peer.backend.send_multipart(frames, zmq.NOBLOCK)
            except zmq.ZMQError:  # it has not shaken hands yet, or is full
                break
            sent += 1
            progress = True
        while answered < sent:
            try:
                answer = peer.frontend.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if b"KINO.REGEXTROUTE" in answer:  # where its hubs are
                continue
            assert b"Done" in answer, answer
            answered += 1
            progress = True
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        assert time.monotonic() - last < STALLED, f"no answer for {STALLED} s, {answered} of {sent} came"
        await asyncio.sleep(0 if progress else 0.001)
    return longest


async def ask_as_a_member(fleet: Fleet, count: int, window: int) -> float:
    worker = fleet.nodes[0]
    server = fleet.addresses[0]
    async with KinoNode(V5, server["broadcast_uri"], server["unicast_uri"], interval=60_000) as peer:
        await peer.join()
        await asyncio.to_thread(until, lambda: worker.look()["peers"] == 1)
        node = worker.ready()
        return await ask(peer, node["identity"].encode(), node["uri"], count, window)


@pytest.mark.timeout(180)
def test_answers_to_a_peer_with_a_large_window_never_stall() -> None:
    with Fleet() as fleet:
        fleet.start_rendezvous(1)
        fleet.start_node("worker", cluster={"heartbeat_interval": 30.0})
        asyncio.run(ask_as_a_member(fleet, COUNT, WINDOW))
