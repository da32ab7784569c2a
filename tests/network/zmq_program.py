"""A socket of libzmq in a process of its own, which shares no code with us.

Run it as ``python -m tests.network.zmq_program`` with a JSON object: which socket it opens, where it binds or connects
to, what it calls itself. It tells where it is bound. A socket that sends reads one number a line, and sends the message
of that number; a socket that receives writes one line for each message: what `describe` returns, and what a
ROUTER calls the connection that it came by.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import zmq

SIZES = (0, 1, 255, 256, 65 * 1024, 1024 * 1024, 63 * 1024 * 1024)
MANY_FRAMES = 8_000
GREETING = -1


@functools.cache
def message(number: int) -> list[bytes]:
    """Return the frames of a message: one of each size, one of many frames, then small ones with their number."""
    if 0 <= number < len(SIZES):
        return [b"%d" % number, random.Random(number).randbytes(SIZES[number])]
    if number == len(SIZES):
        return [b"%d" % number, *(b"%d" % frame * (frame % 7) for frame in range(MANY_FRAMES))]
    return [b"%d" % number, b"", hashlib.sha256(b"%d" % number).digest() * (number % 2_000)]


def describe(frames: Sequence[bytes]) -> list[Any]:
    """Return the number of a message, how many frames it has and a digest of all of them."""
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(len(frame).to_bytes(8))
        digest.update(frame)
    return [int(frames[0]), len(frames), digest.hexdigest()]


def run(options: dict[str, Any]) -> None:
    with zmq.Context() as context, context.socket(getattr(zmq, options["socket"])) as socket:
        socket.linger = int(options.get("linger", 0))
        socket.sndhwm = socket.rcvhwm = int(options.get("high_water", 1_000))
        if "identity" in options:
            socket.set(zmq.ROUTING_ID, options["identity"].encode())
        if socket.type == zmq.SUB:
            socket.subscribe(b"")
        if socket.type == zmq.ROUTER:
            socket.set(zmq.ROUTER_MANDATORY, 1)
        if "connect" in options:
            socket.connect(options["connect"])
        else:
            socket.bind(options.get("bind", "tcp://127.0.0.1:*"))
        say(socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0"))
        if "sends" in options:
            send_what_is_asked_for(socket, [options["to"].encode()] if "to" in options else [])
        else:
            while True:
                frames = socket.recv_multipart()
                sender = frames.pop(0).hex() if socket.type == zmq.ROUTER else ""
                say([*describe(frames), sender])


def send_what_is_asked_for(socket: zmq.Socket[bytes], envelope: list[bytes]) -> None:
    for line in sys.stdin:
        frames = [*envelope, *message(int(line))]
        while True:
            try:
                socket.send_multipart(frames)
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:  # a ROUTER whose peer has not shaken hands
                    raise
                time.sleep(0.001)
            else:
                break


def say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        run(json.loads(sys.argv[1]))
