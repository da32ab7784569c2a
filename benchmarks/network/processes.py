"""The processes of a contender: started one after the other, asked, and ended."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.network.contender import Addresses, Channel, Contender, Failed, Options, Order, Record, Taken

START_TIME = 60.0  # seconds; Ray takes its time
GRACE = 5.0  # seconds to end by itself
_spawn = multiprocessing.get_context("spawn")


class ContenderError(Exception):
    """A contender could not be started, or failed under way."""


class Running:
    """A contender whose processes run. They live through all rounds, and do nothing while others are measured."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._channels: list[Channel] = []
        addresses: dict[str, str] = {}
        try:
            for role in contender.roles:
                addresses[role] = self._start(role, addresses)
        except ContenderError:
            self.close()
            raise

    def _start(self, role: str, addresses: Addresses) -> str:
        ours, theirs = _spawn.Pipe()
        arguments = (self.contender.module, role, theirs, dict(addresses), dict(self.contender.options))
        process = _spawn.Process(target=play, args=arguments, daemon=role != self.contender.roles[-1])
        process.start()
        theirs.close()
        self._processes.append(process)
        self._channels.append(ours)
        return str(self._answer(START_TIME))

    def _answer(self, seconds: float) -> object:
        channel = self._channels[-1]
        try:
            answer = channel.recv() if channel.poll(seconds) else Failed(f"no answer within {seconds:g} s")
        except EOFError:
            answer = Failed("its process ended")
        if isinstance(answer, Failed):
            raise ContenderError(f"{self.contender.name}: {answer.reason}")
        return answer

    def carry_out(self, order: Order) -> Taken:
        """Let the client measure."""
        self._channels[-1].send(order)
        taken = self._answer(order.seconds + START_TIME)
        assert isinstance(taken, Taken)  # noqa: S101 - what a client sends
        return taken

    def record(self, level: str) -> None:
        """Let the nodes record so much from now on."""
        self._channels[-1].send(Record(level))
        self._answer(START_TIME)

    def cpu_seconds(self) -> float:
        """Tell how long the processors have worked for all of its processes, threads of every kind included."""
        return sum(_cpu_seconds(process.pid) for process in self._processes if process.pid is not None)

    def close(self) -> None:
        """End the processes: the client first, which may have to clean up."""
        for process, channel in zip(reversed(self._processes), reversed(self._channels), strict=True):
            channel.close()
            process.join(GRACE if not process.daemon else 0)
            if process.is_alive():
                process.terminate()
                process.join(GRACE)
        self._processes.clear()
        self._channels.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def play(module: str, role: str, channel: Channel, addresses: Addresses, options: Options) -> None:
    """Play a role: what a process does from start to end."""
    try:
        getattr(importlib.import_module(module), role)(channel, addresses, options)
    except (EOFError, KeyboardInterrupt):  # who measures is gone
        pass
    except Exception as error:
        traceback.print_exc()
        channel.send(Failed(f"{type(error).__name__}: {error}"))
