"""How a process with sockets ends: in silence, on every Python, and with its last words sent."""

from __future__ import annotations

import subprocess
import sys

import zmq

from tests.network.processes import LONGEST, ROOT

# From the moment when the interpreter begins to shut down no thread starts any more, which is the rule from 3.12 on.
NO_MORE_THREADS = """
import atexit, threading

def refuse(*_, **__):
    raise RuntimeError("can't create new thread at interpreter shutdown")

def end_threads():
    for name in ("_start_new_thread", "_start_joinable_thread"):
        if hasattr(threading, name):
            setattr(threading, name, refuse)

atexit.register(end_threads)
"""

NODE = """
import asyncio, logging
from hopline import Network, Node

async def main():
    async with Node(network=Network(join_timeout=0.0)):
        pass

logging.disable()
asyncio.run(main())
"""

LAST_WORDS = """
import sys
import zmq
from hopline.transport import SocketSettings
from hopline.transport.libzmq.sockets import connect, open_socket

socket = open_socket(zmq.DEALER, SocketSettings())
connect(socket, sys.argv[1])
socket.send(b"goodbye")
socket.close(30_000)
"""

SECOND_SIGNAL = """
import asyncio, atexit, os, signal
from hopline.cli.signals import Signals

async def main():
    Signals()

def interrupt_twice():
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()

asyncio.run(main())
atexit.register(interrupt_twice)
"""


def run(*programs: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", "\n".join(programs), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST)


def test_a_networked_process_ends_without_a_word() -> None:
    ended = run(NODE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_networked_process_starts_no_thread_while_the_interpreter_shuts_down() -> None:
    ended = run(NODE, NO_MORE_THREADS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_what_was_sent_right_before_the_end_still_leaves() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as listener:
        listener.linger = 0
        port = listener.bind_to_random_port("tcp://127.0.0.1")
        ended = run(LAST_WORDS, arguments=(f"tcp://127.0.0.1:{port}",))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert listener.poll(int(LONGEST * 1000))
        assert listener.recv_multipart()[1:] == [b"goodbye"]


def test_a_second_signal_while_the_interpreter_shuts_down_ends_the_process() -> None:
    ended = run(SECOND_SIGNAL, NO_MORE_THREADS)
    assert (ended.returncode, ended.stderr) == (1, "stopped at once, with work in progress\n")
