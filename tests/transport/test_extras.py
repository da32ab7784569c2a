"""What works without the extras, and what tells which one it needs."""

from __future__ import annotations

import subprocess
import sys

from tests.network.processes import LONGEST, ROOT

NO_EXTRAS = """
import sys
sys.modules["zmq"] = sys.modules["uvloop"] = None
"""

TWO_NODES = """
import asyncio
from hopline import Actor, Network, Node, Payload, RendezvousServer, RendezvousSettings, handler

class Ask(Payload):
    number: int

class Answer(Payload):
    number: int

class Doubling(Actor):
    @handler
    def double(self, ask: Ask) -> Answer:
        return Answer(2 * ask.number)

async def main():
    async with RendezvousServer(RendezvousSettings(address="tcp://127.0.0.1:0")) as server:
        network = Network(rendezvous=[server.address])
        async with Node(Doubling(), network=network), Node(network=network) as node:
            print(await node.hub.send(Ask(21), callback=Answer, timeout=30))
"""

ON_ASYNCIO = "asyncio.run(main())"
AS_COMMANDS_DO = """
from hopline.cli import event_loop

async def on_this_loop():
    print(type(asyncio.get_running_loop()).__module__)
    await main()

event_loop.run(on_this_loop())
"""

ENCRYPTED = """
from hopline import Curve
KEY = b"0" * 40
curve = Curve(network_public=KEY, network_secret=KEY, public=KEY, secret=KEY)

async def start():
    await Node(network=Network(curve=curve)).start()

try:
    asyncio.run(start())
except Exception as error:
    print(error)
"""


def run(*programs: str) -> tuple[int, str, str]:
    command = [sys.executable, "-W", "error", "-c", "\n".join(programs)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_network_needs_neither_libzmq_nor_uvloop() -> None:
    assert run(NO_EXTRAS, TWO_NODES, ON_ASYNCIO) == (0, "Answer(number=42)\n", "")


def test_commands_run_on_uvloop_where_it_is_installed() -> None:
    assert run(TWO_NODES, AS_COMMANDS_DO) == (0, "uvloop\nAnswer(number=42)\n", "")


def test_commands_run_on_asyncios_own_loop_where_it_is_not() -> None:
    assert run(NO_EXTRAS, TWO_NODES, AS_COMMANDS_DO) == (0, "asyncio.unix_events\nAnswer(number=42)\n", "")


def test_encryption_tells_which_extra_it_needs() -> None:
    code, said, _ = run(NO_EXTRAS, TWO_NODES, ENCRYPTED)
    assert code == 0
    assert "pip install 'hopline[curve]'" in said
