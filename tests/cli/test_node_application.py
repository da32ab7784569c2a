"""An application with a life of its own, run by `hopline node`: what is opened, started, stopped, closed, and when."""

from __future__ import annotations

from pathlib import Path
from signal import SIGINT

from tests.cli.commands import Command, prepare, run

SERVICE = """
import asyncio
from contextlib import asynccontextmanager

from hopline import Actor, Payload, handler


class Ping(Payload): ...


class Lively(Actor):
    async def on_start(self, node):
        print("started", flush=True)

    async def on_stop(self, node):
        print("has stopped", flush=True)

    @handler
    def ping(self, ping: Ping) -> None: ...


class Broken(Actor):
    async def on_start(self, node):
        raise ConnectionError("no database")


@asynccontextmanager
async def service():
    task = asyncio.current_task()
    print("opened", flush=True)
    yield [Lively()]
    assert asyncio.current_task() is task, "left in another task than it was entered in"
    print("closed", flush=True)


@asynccontextmanager
async def broken():
    try:
        yield [Lively(), Broken()]
    finally:
        print("closed", flush=True)


@asynccontextmanager
async def slow():
    try:
        print("opening", flush=True)
        await asyncio.Event().wait()
        yield [Lively()]
    finally:
        print("closed", flush=True)
"""


def test_an_application_is_open_as_long_as_its_node_runs(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "lively.py").write_text(SERVICE)
    with Command(tmp_path, "node", "--app", "lively:service", "--embedded", "--log-level", "error") as node:
        node.line("capture")
        assert node.stop(SIGINT) == 0
    events = ("opened", "started", "hopline node", "stopping", "has stopped", "stopped: ", "closed")
    lines = [next(at for at, line in enumerate(node.lines) if line.startswith(event)) for event in events]
    assert lines == sorted(lines), node.lines


def test_an_actor_that_cannot_start_ends_the_command_with_one_line(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "lively.py").write_text(SERVICE)
    done = run(tmp_path, "node", "--app", "lively:broken", "--embedded", "--log-level", "error")
    assert done.returncode == 1
    assert done.stderr == "hopline node: on_start of Broken failed: ConnectionError: no database\n"
    assert done.stdout == "started\nhas stopped\nclosed\n"


def test_ctrl_c_ends_an_application_that_is_still_being_opened(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "lively.py").write_text(SERVICE)
    with Command(tmp_path, "node", "--app", "lively:slow", "--embedded", "--log-level", "error") as node:
        node.line("opening")
        assert node.stop(SIGINT) == 0
        node.line("closed")
        node.line("stopped before it was ready")
