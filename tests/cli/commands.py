"""`hopline …` as real processes: started, read line by line, and ended by their own pid."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from signal import SIGTERM, Signals
from types import TracebackType
from typing import Self

from tests.network.processes import LONGEST, free_ports

APPLICATION = """
import asyncio
import time

from hopline import Actor, Payload, handler


class Wait(Payload):
    seconds: float


class Greet(Payload):
    name: str


class Greeting(Payload):
    text: str


class Greeter(Actor):
    @handler
    async def greet(self, request: Greet) -> Greeting:
        if request.name == "nobody":
            raise ValueError("there is nobody to greet")
        if request.name == "slow":
            print("greeting slowly", flush=True)
            await asyncio.sleep(1.0)
        if request.name == "nobody in particular":
            print("greeting for ever", flush=True)
            time.sleep(100.0)
        return Greeting(f"Hello, {request.name}!")


class Waiter(Actor):
    @handler(blocking=True)
    def wait(self, request: Wait) -> None:
        print("waiting", flush=True)
        time.sleep(request.seconds)


def make():
    return [Greeter(), Greeter()]


async def make_later():
    return Greeter()


async def make_never():
    print("making", flush=True)
    await asyncio.sleep(100.0)


number = 5
"""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the environment of this process, without what would configure Hopline."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOPLINE_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **(extra or {})}


def run(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "hopline", *arguments],
        cwd=folder,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


class Command:
    """A command that runs until it is told. Use it with `with`: whatever happens, it is not left behind."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hopline", *arguments],
            cwd=folder,
            env=environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._news = threading.Condition()
        self._is_over = False
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def line(self, text: str, within: float = LONGEST) -> str:
        """Wait for a line with a text in it."""

        def found() -> str | None:
            return next((line for line in self.lines if text in line), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or self._is_over, within)
            line = found()
        assert line is not None, "\n".join([f"no line with {text!r} in:", *self.lines])
        return line

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: Signals) -> None:
        os.kill(self._process.pid, number)

    def end(self) -> int:
        """Wait for its end, and give the exit code."""
        code = self._process.wait(LONGEST)
        self._reader.join(LONGEST)
        return code

    def stop(self, number: Signals = SIGTERM) -> int:
        self.signal(number)
        return self.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.end()
        assert self._process.stdout is not None
        self._process.stdout.close()


def prepare(folder: Path) -> dict[str, int]:
    """Write an application and a configuration with ports that are free now; give the ports."""
    names = ("broadcast", "unicast", "partner", "metrics")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    at = {name: f"tcp://127.0.0.1:{port}" for name, port in ports.items()}
    (folder / "greeter.py").write_text(APPLICATION)
    (folder / "hopline.toml").write_text(
        f"""
[node]
rendezvous = [{{ broadcast_uri = "{at["broadcast"]}", unicast_uri = "{at["unicast"]}" }}]

[node.cluster]
heartbeat_interval = 1
rendezvous_reconnect = 0.3

[rendezvous]
address = "{at["broadcast"]}"
unicast_address = "{at["unicast"]}"
partner_address = "{at["partner"]}"
"""
    )
    return ports
