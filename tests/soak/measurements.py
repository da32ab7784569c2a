"""Memory and file descriptors of the processes of a run, measured while they live, and whether they grew.

The measured value of a process is compared with itself: its level after the first fifth of its life, when caches are
filled and code is compiled, with its level at the end of its life. A level is a median over a fifth of the life:
the memory of a process that closes segments or collects garbage rises and falls all the time.

Lives that are shorter than `LEAST_LIFE` are not judged: their first fifth is not long enough for a process to settle.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.soak.processes import Process, Processes, descriptors_of, memory_of

PERIOD = 2.0  # seconds
LEAST_LIFE = 500.0  # seconds
_PARTS = 5
_LEAST_SAMPLES = 3  # in each of the compared fifths


class Sample(msgspec.Struct, frozen=True):
    """What was measured of one process at a time, or of several processes of one program together."""

    time: float  # seconds since 1970
    role: str
    life: int
    program: str  # empty for the process of the life itself, else that of its children
    memory: int  # bytes
    descriptors: int

    @property
    def process(self) -> str:
        """The role, and the program of its children."""
        return f"{self.role} {self.program}".rstrip()


class Level(msgspec.Struct, frozen=True):
    """One value of a process in the second fifth of its life and in the last."""

    before: float
    after: float

    @property
    def growth(self) -> float:
        """The growth as a share: 0.05 is 5%."""
        return self.after / self.before - 1 if self.before else 0.0


class Growth(msgspec.Struct, frozen=True):
    """How a process grew in the course of one life."""

    process: str
    life: int
    seconds: float
    memory: Level
    descriptors: Level


def growths(samples: Iterable[Sample], least_life: float = LEAST_LIFE) -> list[Growth]:
    """Return how the processes grew, for each life that is long enough to be judged."""
    by_life: dict[tuple[str, int], list[Sample]] = {}
    for sample in samples:
        by_life.setdefault((sample.process, sample.life), []).append(sample)
    result = []
    for (process, life), course in sorted(by_life.items()):
        growth = _growth(process, life, course)
        if growth is not None and growth.seconds >= least_life:
            result.append(growth)
    return result


def _growth(process: str, life: int, course: Sequence[Sample]) -> Growth | None:
    began, ended = course[0].time, course[-1].time
    fifth = (ended - began) / _PARTS
    second = [sample for sample in course if began + fifth <= sample.time < began + 2 * fifth]
    last = [sample for sample in course if sample.time >= ended - fifth]
    if min(len(second), len(last)) < _LEAST_SAMPLES:
        return None
    return Growth(
        process,
        life,
        ended - began,
        memory=Level(
            statistics.median(sample.memory for sample in second), statistics.median(sample.memory for sample in last)
        ),
        descriptors=Level(
            statistics.median(sample.descriptors for sample in second),
            statistics.median(sample.descriptors for sample in last),
        ),
    )


def measure(process: Process) -> list[Sample]:
    """Measure a process and its children, those of one program together."""
    life, now = process.life, time.time()
    sums: dict[str, tuple[int, int]] = {}
    for member in process.members():
        program = "" if member.pid == life.pid else member.name
        memory, descriptors = sums.get(program, (0, 0))
        sums[program] = memory + memory_of(member.pid), descriptors + descriptors_of(member.pid)
    return [
        Sample(now, life.role, life.number, program, memory, descriptors)
        for program, (memory, descriptors) in sums.items()
        if memory
    ]


class Sampler:
    """Measures all processes every `PERIOD`, in a thread of its own, and writes the samples to a file.

    Args:
        processes: The processes.
        file: Where each sample becomes a line of JSON.
        also: Called every time, for what else is to be measured.
    """

    def __init__(self, processes: Processes, file: Path, also: Callable[[], None] | None = None) -> None:
        self.samples: list[Sample] = []
        self._processes = processes
        self._file = file
        self._also = also
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with self._file.open("ab") as file:
            while not self._is_over.wait(PERIOD):
                for process in self._processes.running():
                    samples = measure(process)
                    self.samples += samples
                    file.write(b"".join(msgspec.json.encode(sample) + b"\n" for sample in samples))
                if self._also is not None:
                    self._also()
