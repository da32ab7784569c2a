"""A level is a median over a fifth of a life, and only long lives are judged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.network.processes import until
from tests.soak.measurements import LEAST_LIFE, Growth, Sample, growths, measure
from tests.soak.processes import End, Processes

MEGABYTE = 1_000_000


def course(
    memory: Callable[[int], float], seconds: int = 600, descriptors: Callable[[int], int] = lambda _: 20
) -> list[Sample]:
    """Return the samples of a life, one a second."""
    return [
        Sample(1_000.0 + second, "node-1", 1, "", int(memory(second) * MEGABYTE), descriptors(second))
        for second in range(seconds + 1)
    ]


def growth_of(samples: list[Sample]) -> Growth:
    (growth,) = growths(samples)
    return growth


def test_a_process_that_grows_only_in_the_first_fifth_of_its_life_is_level() -> None:
    assert growth_of(course(lambda second: min(100 + second, 180))).memory.growth == 0


def test_a_process_that_grows_all_the_time_is_found() -> None:
    growth = growth_of(course(lambda second: 100 + 0.5 * second))
    assert growth.memory.before == pytest.approx(190 * MEGABYTE, rel=0.01)
    assert growth.memory.after == pytest.approx(370 * MEGABYTE, rel=0.01)
    assert growth.memory.growth == pytest.approx(0.947, abs=0.01)


def test_a_process_that_rises_and_falls_is_level() -> None:
    assert growth_of(course(lambda second: 200 if second % 10 == 0 else 100)).memory.growth == 0


def test_descriptors_that_are_never_closed_are_found() -> None:
    growth = growth_of(course(lambda _: 100, descriptors=lambda second: 20 + second // 20))
    assert growth.descriptors.after - growth.descriptors.before == pytest.approx(18, abs=1)


def test_short_lives_and_short_glimpses_are_not_judged() -> None:
    assert growths(course(lambda _: 100, seconds=int(LEAST_LIFE) - 1)) == []
    assert growths(course(lambda _: 100)[::100]) == []


def test_lives_and_programs_are_judged_apart() -> None:
    samples = course(lambda _: 100)
    others = [Sample(sample.time, "stream", 2, "java", 5, 5) for sample in samples]
    assert [(growth.process, growth.life) for growth in growths(samples + others)] == [
        ("node-1", 1),
        ("stream java", 2),
    ]


needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"],
    stdin=subprocess.PIPE, start_new_session=False)
sys.stdin.read()
"""


@needs_proc
def test_a_process_is_measured_with_its_children_and_none_of_them_outlives_the_run(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        process = processes.start("parent", ["-c", PARENT], has_input=True)
        until(lambda: "here" in process.log.read_text(), what="the child")
        memory = sum(sample.memory for sample in measure(process))
        assert len(process.members()) == 2
        assert memory > 10 * MEGABYTE
        process.kill(with_children=False)
        assert process.life.end is End.KILLED
    until(lambda: processes.children_left() == 0, what="the end of the child")


@needs_proc
def test_a_process_that_ends_by_itself_is_told_from_one_that_is_stopped(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        stopped = processes.start("reader", ["-c", "import sys; sys.stdin.read()"], has_input=True)
        stopped.stop(30)
        ended = processes.start("reader", ["-c", "raise SystemExit(3)"])
        until(ended.has_ended_by_itself, what="the end of the process")
    assert [(life.number, life.end, life.code) for life in processes.lives] == [
        (1, End.STOPPED, 0),
        (2, End.BY_ITSELF, 3),
    ]
