"""The course of a soak: the network is started, loaded, disturbed, drained and stopped.

Theory of operation
-------------------
Three nodes, each in a process of its own, send each other messages at a steady rate and record all of them; a
rendezvous server lets them find each other, and a stream turns the records into tables. One fault after the other
befalls them. At the end the load stops first, then the nodes finish what is under way, and only when nothing waits on
any of them they are stopped: so whatever is missing then was lost, and not merely under way.

What can be proved, and how:

* **Within a life.** Every line of counters that a node writes must balance: what was submitted and received equals what
  ended plus what waits. In the records of a life that was stopped in order, each message goes out as often as it came
  in, and their counts by event are those of the counters. The records of a life that was killed end at some point up to
  the kill; until there, no message has gone out more often than it came in, and those that have not gone out were
  waiting.
* **Between lives.** Each message that one node recorded as sent, another one recorded as received, byte by byte. The
  exceptions must have one of the causes in `losses`: the end of a process, or a broken connection, whose messages the
  sender counts as unacknowledged.
* **Over all.** No message of the load is delivered twice. Each question is answered or fails with a reason, and fails
  only near a fault. Each record is a row of `messages` or of `rejects`. The stream's tables are those of the batch job.

What cannot be proved: that a node killed at the wrong moment would not have lost more, had it lived. Nothing is claimed
about messages that a killed process held, nor about answers that it would have given.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from hopline.capture.events import Level
from hopline.cluster import RendezvousAddress
from tests.network.processes import free_addresses
from tests.soak.counters import Counters, LastCounters, Phase, read_counters
from tests.soak.faults import Fault, FaultKind
from tests.soak.load import MESSAGES_A_STEP
from tests.soak.measurements import Sample, Sampler
from tests.soak.node_program import NodeOptions
from tests.soak.processes import Life, Process, Processes, run, wait_for
from tests.soak.stream import Lateness, stream_arguments

RENDEZVOUS = "rendezvous"
STREAM = "stream"
NODES = ("node-1", "node-2", "node-3")

START_TIMEOUT = 60.0  # seconds
STOP_TIMEOUT = 60.0
STOP_TIMEOUTS = {STREAM: 300.0}  # it ends the batch under way
DRAIN_TIMEOUT = 60.0
_POLL = 0.05
_STATUS_PERIOD = 5.0
_RESTART_PAUSE = 1.0  # seconds before a process that ended by itself is started again


class SoakError(Exception):
    """The run cannot go on; the text says why, and names a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """What to run."""

    directory: Path
    minutes: float
    rate: float  # messages a second, of all nodes
    seed: int
    faults: tuple[Fault, ...]
    level: Level = Level.FULL
    segment_time: float = 10.0
    with_stream: bool = True

    @property
    def tables(self) -> Path:
        """The folder of the stream's tables."""
        return self.directory / "tables"

    @property
    def captures(self) -> Path:
        """The folder of the captures."""
        return self.directory / "captures"

    @property
    def roles(self) -> tuple[str, ...]:
        """All processes that faults may befall."""
        return roles(with_stream=self.with_stream)


def roles(*, with_stream: bool) -> tuple[str, ...]:
    """Return all processes that faults may befall."""
    return (*NODES, RENDEZVOUS, STREAM) if with_stream else (*NODES, RENDEZVOUS)


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that has happened. Times are seconds since 1970."""

    fault: Fault
    began: float
    ended: float  # when the process went on, or was started again


@dataclass(slots=True)
class Course:
    """What has happened in a run."""

    options: SoakOptions
    load_began: float = 0.0
    load_ended: float = 0.0
    is_drained: bool = False
    is_interrupted: bool = False
    children_left: int = 0
    lives: list[Life] = field(default_factory=list)
    injected: list[Injected] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    lateness: dict[str, float] = field(default_factory=dict)  # of the stream's records, in seconds
    problems: list[str] = field(default_factory=list)

    def counters_of(self, life: Life) -> list[Counters]:
        """Return the lines that a life of a node has written."""
        return read_counters(counters_file(self.options.directory, life.role, life.number))


def counters_file(directory: Path, role: str, number: int) -> Path:
    """Return the file for the counters of a life."""
    return directory / "counters" / f"{role}.{number}.jsonl"


class Soak:
    """One run.

    Args:
        options: What to run.
        show: Called with lines for the one who watches.
    """

    def __init__(self, options: SoakOptions, show: Callable[[str], None]) -> None:
        self.course = Course(options)
        self._options = options
        self._show = show
        broadcast, unicast, partner, *nodes = free_addresses(3 + len(NODES))
        self._rendezvous = RendezvousAddress(broadcast_uri=broadcast, unicast_uri=unicast)
        self._partner = partner
        self._addresses = dict(zip(NODES, nodes, strict=True))
        self._last: dict[str, LastCounters] = {}
        self._paused: tuple[float, Process, Fault, float] | None = None
        self._recoveries: list[Future[list[str]]] = []

    def run(self) -> Course:
        """Run until the end of the load, or until Ctrl-C, and stop everything."""
        directory, course = self._options.directory, self.course
        for name in ("captures", "counters", "config"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        with Processes(directory / "logs") as processes:
            self._processes = processes
            course.lives = processes.lives
            with ThreadPoolExecutor(1) as self._executor:
                lateness = Lateness(self._options.tables)
                with Sampler(processes, directory / "measurements.jsonl", also=lateness.look) as sampler:
                    course.samples = sampler.samples
                    try:
                        self._start_all()
                        self._load()
                        self._drain()
                    except KeyboardInterrupt:
                        course.is_interrupted = True
                        self._show("interrupted: everything is stopped in order; press Ctrl-C again to kill it")
                    finally:
                        course.load_ended = course.load_ended or time.time()
                self._stop_all()
            course.children_left = processes.children_left()
        course.lateness = lateness.quantiles()
        for recovery in self._recoveries:
            if recovery.exception() is not None:
                course.problems.append(f"a recovery failed: {recovery.exception()}")
        return course

    # -- starting ------------------------------------------------------------------------------------------------------

    def _start_all(self) -> None:
        self._start(RENDEZVOUS)
        if not wait_for("ready", self._processes[RENDEZVOUS], START_TIMEOUT):
            raise self._failure(RENDEZVOUS, "did not get ready")
        for name in NODES:
            self._start(name)
        self._wait_until("the nodes know each other", START_TIMEOUT, self._all_know_each_other)
        if self._options.with_stream:
            self._start(STREAM)
        for name in NODES:
            self._processes[name].write("load")

    def _start(self, role: str) -> Process:
        if role == RENDEZVOUS:
            return self._processes.start(role, ["-m", "hopline", "rendezvous", "--config", str(self._config())])
        if role == STREAM:
            arguments = stream_arguments(self._options.captures, self._options.tables)
            return self._processes.start(role, ["-m", "hopline", *arguments])
        number = 1 + sum(life.role == role for life in self._processes.lives)
        counters = counters_file(self._options.directory, role, number)
        self._last[role] = LastCounters(counters)
        options = NodeOptions(
            name=role,
            names=NODES,
            address=self._addresses[role],
            rendezvous=self._rendezvous,
            captures=str(self._options.captures),
            level=self._options.level,
            segment_time=self._options.segment_time,
            rate=self._options.rate / MESSAGES_A_STEP / len(NODES),
            counters=str(counters),
        )
        arguments = ["-m", "tests.soak.node_program", msgspec.json.encode(options).decode()]
        return self._processes.start(role, arguments, has_input=True)

    def _config(self) -> Path:
        file = self._options.directory / "config" / "rendezvous.toml"
        file.write_text(
            f'[rendezvous]\naddress = "{self._rendezvous.broadcast_uri}"\n'
            f'unicast_address = "{self._rendezvous.unicast_uri}"\npartner_address = "{self._partner}"\n',
            encoding="utf-8",
        )
        return file

    def _failure(self, role: str, what: str) -> SoakError:
        return SoakError(f"{role} {what}, see {self._processes[role].log}")

    def _counters(self) -> list[Counters | None]:
        return [self._last[name].refresh() for name in NODES]

    def _all_know_each_other(self) -> bool:
        return all(counters is not None and counters.peers == len(NODES) - 1 for counters in self._counters())

    def _wait_until(self, what: str, timeout: float, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            for role in (RENDEZVOUS, *NODES):
                if role in self._last and self._processes[role].has_ended_by_itself():
                    raise self._failure(role, "ended by itself")
            if time.monotonic() > deadline:
                raise SoakError(f"waited {timeout:g} s in vain until {what}")
            time.sleep(_POLL)

    # -- the load, and the faults --------------------------------------------------------------------------------------

    def _load(self) -> None:
        course, options = self.course, self._options
        course.load_began = time.time()
        began = time.monotonic()
        faults = deque(options.faults)
        next_status = began
        while (now := time.monotonic()) < began + 60 * options.minutes:
            if self._paused is not None:
                if now >= self._paused[0]:
                    self._resume()
            elif faults and now >= began + faults[0].at:
                self._inject(faults.popleft())
            self._restart_what_ended()
            if now >= next_status:
                next_status += _STATUS_PERIOD
                self._show_status(now - began, faults)
            time.sleep(_POLL)
        if self._paused is not None:
            self._resume()
        course.load_ended = time.time()

    def _inject(self, fault: Fault) -> None:
        process = self._processes[fault.role]
        began = time.time()
        self._show(f"{began - self.course.load_began:6.0f} s  {fault}")
        if fault.kind is FaultKind.PAUSE:
            process.pause()
            self._paused = time.monotonic() + fault.seconds, process, fault, began
            return
        process.kill(with_children=fault.kind is FaultKind.KILL)
        self._start_again(fault.role)
        self.course.injected.append(Injected(fault, began, time.time()))

    def _resume(self) -> None:
        assert self._paused is not None
        _, process, fault, began = self._paused
        self._paused = None
        process.resume()
        self.course.injected.append(Injected(fault, began, time.time()))

    def _start_again(self, role: str) -> None:
        process = self._start(role)
        if role in NODES:
            process.write("load")
            self._recoveries.append(self._executor.submit(self._recover))

    def _recover(self) -> list[str]:
        """Make segments of what a killed node has left, while it starts again."""
        log = self._options.directory / "logs" / "recover.log"
        return run(["-m", "hopline", "capture", "recover", str(self._options.captures)], log)

    def _restart_what_ended(self) -> None:
        for role in self._options.roles:
            process = self._processes[role]
            if process.life.end is None and process.has_ended_by_itself():
                text = f"{process.life.name} ended by itself with code {process.life.code}, see {process.log.name}"
                self.course.problems.append(text)
                self._show(f"           {text}")
                time.sleep(_RESTART_PAUSE)
                self._start_again(role)

    def _show_status(self, seconds: float, faults: Sequence[Fault]) -> None:
        counters = [each for each in self._counters() if each is not None]
        asked = sum(each.load.asked for each in counters)
        answered = sum(each.load.answered for each in counters)
        waiting = sum(each.stats.waiting for each in counters)
        upcoming = f"next: {faults[0]} in {faults[0].at - seconds:.0f} s" if faults else "no more faults"
        if self._paused is not None:
            upcoming = f"{self._paused[1].life.role} is paused"
        joined = sum(each.is_joined for each in counters)
        self._show(
            f"{seconds:6.0f} s  {joined} of {len(NODES)} joined; {answered:,} of {asked:,} answered in these lives;"
            f" {waiting:,} wait; {upcoming}"
        )

    # -- the end -------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """End the load, and wait until nothing waits on any node."""
        for name in NODES:
            self._processes[name].write("drain")
        try:
            self._wait_until("nothing waits any more", DRAIN_TIMEOUT, self._is_drained)
        except SoakError as error:
            self.course.problems.append(str(error))
        else:
            self.course.is_drained = True

    def _is_drained(self) -> bool:
        """Return whether all nodes have written, after the last of them had finished, that nothing waits."""
        counters = self._counters()
        if not all(each is not None and each.phase is Phase.DRAINED for each in counters):
            self._drained_at = time.time()
            return False
        return all(each is not None and each.time > self._drained_at and not each.stats.waiting for each in counters)

    def _stop_all(self) -> None:
        for role in (*NODES, STREAM, RENDEZVOUS):
            if any(life.role == role for life in self._processes.lives):
                self._processes[role].resume()
                self._processes[role].stop(STOP_TIMEOUTS.get(role, STOP_TIMEOUT))


def show_line(text: str) -> None:
    """Write a line for the one who watches."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
