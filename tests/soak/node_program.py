"""A node under load, in a process of its own: ``python -m tests.soak.node_program OPTIONS``, with options as JSON.

It takes commands on standard input, a line each: `load` begins the load, `drain` ends it. When standard input ends, the
node stops in order; so it does when the process that started it is gone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import msgspec

from hopline.capture.events import Level
from hopline.capture.settings import CaptureSettings
from hopline.cli import event_loop
from hopline.cli.logs import LogLevel, set_up_logs
from hopline.cluster import RendezvousAddress
from hopline.message import AnswerTimeoutError, DeliveryError, HoplineError, to_message
from hopline.node import Network, Node
from tests.soak.counters import PERIOD, Counters, Failure, LoadCounts, Phase
from tests.soak.load import MESSAGES_A_STEP, NOTES_A_STEP, Answer, Note, OpenLoop, Question, Worker, text_of

REQUEST_TIMEOUT = 5.0  # seconds
_TICK = 0.01  # seconds between two looks at what is due
_POLL = 0.02


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a node needs to know."""

    name: str
    names: Sequence[str]  # of all nodes
    address: str
    rendezvous: RendezvousAddress
    captures: str
    level: Level
    segment_time: float
    rate: float  # steps a second, of this node
    counters: str  # the file


class LoadedNode:
    """A node that sends its part of the load, and writes its counters down."""

    def __init__(self, options: NodeOptions, file: BinaryIO) -> None:
        self._options = options
        self._file = file
        self._worker = Worker([name for name in options.names if name != options.name])
        self._node = Node(
            self._worker,
            identity=options.name.encode(),
            network=Network(rendezvous=[options.rendezvous], address=options.address),
            capture=CaptureSettings(directory=options.captures, level=options.level, segment_time=options.segment_time),
        )
        self._partition = options.name.encode()
        self._phase = Phase.WAITING
        self._asked = self._answered = self._noted = self._skipped = 0
        self._failed: Counter[str] = Counter()
        self._not_noted: Counter[str] = Counter()
        self._failures: list[Failure] = []  # since the last line

    async def run(self, commands: asyncio.StreamReader) -> None:
        """Run until standard input ends."""
        drain = asyncio.Event()
        async with self._node:
            self._write()
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(self._report())]
                while command := (await commands.readline()).strip():
                    if command == b"load":
                        background.append(tasks.create_task(self._send_load(drain)))
                    elif command == b"drain":
                        drain.set()
                for task in background:
                    task.cancel()
        self._phase = Phase.STOPPED
        self._write()

    # -- the load ------------------------------------------------------------------------------------------------------

    async def _send_load(self, drain: asyncio.Event) -> None:
        self._phase = Phase.LOADED
        schedule = OpenLoop(self._options.rate, time.monotonic())
        number = 0
        async with asyncio.TaskGroup() as questions:
            while not drain.is_set():
                for _ in range(schedule.due(time.monotonic())):
                    number += 1
                    questions.create_task(self._ask(number))
                    for _ in range(NOTES_A_STEP):
                        self._take_note(number)
                self._skipped = schedule.skipped
                await asyncio.sleep(_TICK)
            self._phase = Phase.DRAINING
        while self._waits():
            await asyncio.sleep(_POLL)
        self._phase = Phase.DRAINED
        self._write()

    def _waits(self) -> bool:
        stats = self._node.stats()
        return bool(stats.waiting or stats.promised)

    async def _ask(self, number: int) -> None:
        lifetime = timedelta(seconds=REQUEST_TIMEOUT)
        question = to_message(Question(number, text_of(number)), partition=self._partition, ttl=lifetime)
        began = time.time()
        self._asked += 1
        try:
            answer = await self._node.hub.send(question, callback=Answer)
        except HoplineError as error:
            self._failed[_reason(error)] += 1
            self._failures.append(Failure(began, time.time(), _reason(error)))
            return
        if answer.number == number:
            self._answered += 1
        else:
            self._failed["the answer to another question"] += 1

    def _take_note(self, number: int) -> None:
        note = to_message(Note(number, text_of(number)), partition=self._partition)
        try:
            self._node.hub.try_send_one_way(note)
        except HoplineError as error:
            self._not_noted[_reason(error)] += 1
            now = time.time()
            self._failures.append(Failure(now, now, _reason(error)))
        else:
            self._noted += 1

    # -- the counters --------------------------------------------------------------------------------------------------

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            self._write()

    def _write(self) -> None:
        """Write a line by one call, whole or not at all."""
        self._file.write(msgspec.json.encode(self._counters()) + b"\n")

    def _counters(self) -> Counters:
        failures, self._failures = self._failures, []
        load = LoadCounts(
            asked=self._asked,
            answered=self._answered,
            failed=dict(self._failed),
            noted=self._noted,
            not_noted=dict(self._not_noted),
            skipped=self._skipped * MESSAGES_A_STEP,
        )
        stats = self._node.stats()
        report = self._node.report() if self._node.is_running else None
        network = None if report is None else report.network
        return Counters(
            time=time.time(),
            phase=self._phase,
            stats=stats,
            load=load,
            questions=self._worker.questions,
            notes=self._worker.notes,
            failures=failures,
            capture=None if report is None else report.capture,
            unacknowledged=0 if network is None else network.unacknowledged,
            peers=0 if network is None else network.peers,
            is_joined=network is not None and network.is_joined,
        )


def _reason(error: HoplineError) -> str:
    """Return a reason without the particulars of one message."""
    if isinstance(error, AnswerTimeoutError):
        return "no answer in time"
    if isinstance(error, DeliveryError):
        return f"undeliverable: {error.outcome}"
    return type(error).__name__


async def main(options: NodeOptions, file: BinaryIO) -> None:
    """Run a node by its options, and write its counters to a file."""
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    await LoadedNode(options, file).run(commands)


if __name__ == "__main__":
    set_up_logs(LogLevel.INFO, as_json=False)
    given = msgspec.json.decode(sys.argv[1], type=NodeOptions)
    with suppress(KeyboardInterrupt), Path(given.counters).open("ab", buffering=0) as counters:
        event_loop.run(main(given, counters))
