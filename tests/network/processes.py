"""Processes that tests start, talk to and stop, each by its own pid; whatever happens, none is left behind."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parent.parent.parent
LONGEST = 60.0  # seconds for anything that must happen
PORTS = (10_000, 30_000)

Answer = dict[str, Any]

# Times of a network in a hurry; the defaults are those of the reference, which takes them easy.
LEASE = {"max_lease": 1.0, "clock_drift": 0.05, "message_roundtrip": 0.2, "node_response_timeout": 0.1}
CLUSTER = {
    "heartbeat_interval": 1.0,
    "rendezvous_silence": 3.0,
    "rendezvous_reconnect": 0.5,
    "probe_timeout": 1.0,
    "discovery_period": 0.5,
    "routes_start_delay": 0.2,
}


def free_ports(count: int) -> list[int]:
    """Find ports that nobody uses now, where the system gives none to connections: so they stay free until used."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def free_addresses(count: int) -> list[str]:
    """Find addresses that nobody listens at."""
    return [f"tcp://127.0.0.1:{port}" for port in free_ports(count)]


def until(condition: Callable[[], object], longest: float = LONGEST, what: str = "the condition") -> None:
    """Wait for a condition, and fail if it does not come true."""
    deadline = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {longest} s"
        time.sleep(0.02)


class Process:
    """One process of `tests.network.program`, and its answers."""

    def __init__(self, role: str, options: Answer, prefix: Sequence[str] = ()) -> None:
        self.name = options.get("name", role)
        self._keys = itertools.count()
        self._answers: dict[int, Queue[Answer]] = {}
        self._ready: Queue[Answer] = Queue()
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.network.program", role, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def __repr__(self) -> str:
        return f"Process({self.name}, {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def ready(self) -> Answer:
        """Wait until the process says that it runs."""
        answer: Answer = self._ready.get(timeout=LONGEST)
        self._ready.put(answer)
        return answer

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if "ready" in answer:
                self._ready.put(answer["ready"])
            else:
                self._answers.pop(answer.pop("key")).put(answer)

    def begin(self, do: str, **options: Any) -> Queue[Answer]:
        """Give an order; the answer will be in the queue."""
        assert self._process.stdin is not None
        key = next(self._keys)
        answer = self._answers[key] = Queue()
        self._process.stdin.write(json.dumps({"key": key, "do": do, **options}) + "\n")
        self._process.stdin.flush()
        return answer

    def ask(self, do: str, **options: Any) -> Answer:
        """Give an order, and wait for the answer."""
        return answer_of(self.begin(do, **options))

    def look(self) -> Answer:
        return self.ask("look")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        if self.returncode is None:
            self.signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait(LONGEST)

    def stop(self) -> int:
        """Let the process end in order, and give its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(LONGEST)

    def clean_up(self) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def answer_of(queue: Queue[Answer], longest: float = LONGEST) -> Answer:
    try:
        return queue.get(timeout=longest)
    except Empty:
        raise AssertionError("no answer from the process") from None


class Fleet:
    """Rendezvous servers and nodes in processes of their own."""

    def __init__(self) -> None:
        self.rendezvous: list[Process] = []
        self.nodes: list[Process] = []
        self.addresses: list[Answer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.nodes, *self.rendezvous):
            process.clean_up()

    def start_rendezvous(self, count: int) -> None:
        """Start servers that share one leadership."""
        ports = free_ports(4 * count)
        synod = [f"tcp://127.0.0.1:{port}" for port in ports[:count]] if count > 1 else []
        for number in range(count):
            broadcast, unicast, partner = (f"tcp://127.0.0.1:{ports[count + 3 * number + one]}" for one in range(3))
            options: Answer = {
                "address": broadcast,
                "unicast_address": unicast,
                "partner_address": partner,
                "lease": LEASE,
            }
            if synod:
                options |= {"synod": synod, "synod_address": synod[number]}
            self.rendezvous.append(Process("rendezvous", options))
        self.addresses = [process.ready() for process in self.rendezvous]

    def begin_node(self, name: str, *, prefix: Sequence[str] = (), **options: Any) -> Process:
        """Start a node, and do not wait for it."""
        cluster = CLUSTER | options.pop("cluster", {})
        given = {"name": name, "rendezvous": self.addresses, "cluster": cluster, **options}
        process = Process("node", given, prefix)
        self.nodes.append(process)
        return process

    def start_node(self, name: str, **options: Any) -> Process:
        process = self.begin_node(name, **options)
        process.ready()
        return process

    def leader(self) -> Process:
        """Wait for the server that leads."""
        found: list[Process] = []

        def look() -> bool:
            found[:] = [one for one in self.rendezvous if one.returncode is None and one.look()["leads"]]
            return len(found) == 1

        until(look, what="one leader")
        return found[0]
