"""Virtual time: hours pass at once, in the same order every time, and only what works for real takes time."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from hopline import AnswerTimeoutError, ArgumentError, NodeSettings
from hopline.testing import DeadlockError, VirtualRunner, node, run, virtual_time
from tests.testing.shop import Compute, Price, Pricing, Wait, Waited, Waiting

AT_ONCE = 20.0  # seconds that hours may take, on a machine that has much else to do


def test_hours_pass_at_once() -> None:
    began = time.monotonic()
    assert run(asyncio.sleep(10 * 3600, "done")) == "done"
    assert time.monotonic() - began < AT_ONCE


def test_timers_fire_in_their_order_and_at_their_time() -> None:
    async def measure() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[str, float]] = []

        async def fire(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            fired.append((name, loop.time()))

        await asyncio.gather(fire("late", 7200), fire("early", 60), fire("middle", 3600.5))
        return fired

    assert run(measure()) == [("early", 60.0), ("middle", 3600.5), ("late", 7200.0)]


def test_a_request_times_out_after_a_minute_that_takes_no_time() -> None:
    async def time_out() -> float:
        async with node(Pricing(minutes=90)) as pricing:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(AnswerTimeoutError):
                await pricing.hub.ask(Price("lamp"), timeout=60)
            return loop.time() - began

    began = time.monotonic()
    assert run(time_out()) == pytest.approx(60, abs=0.1)
    assert time.monotonic() - began < AT_ONCE


def test_a_node_makes_the_time_of_any_loop_of_asyncio_virtual_while_it_runs() -> None:
    async def answer() -> Waited:
        async with node(Waiting()) as waiting:
            return await waiting.hub.ask(Wait(3600), timeout=4000)

    began = time.monotonic()
    assert asyncio.run(answer()) == Waited(3600)
    assert time.monotonic() - began < AT_ONCE


def test_afterwards_time_is_real_again_and_has_not_gone_back() -> None:
    async def measure() -> tuple[float, float, float]:
        loop = asyncio.get_running_loop()
        with virtual_time():
            await asyncio.sleep(3600)
            virtual = loop.time()
        began = time.monotonic()
        after = loop.time()
        await asyncio.sleep(0.05)
        return virtual, after, time.monotonic() - began

    virtual, after, slept = asyncio.run(measure())
    assert after >= virtual
    assert slept >= 0.04


def test_virtual_time_within_virtual_time_changes_nothing() -> None:
    async def nest() -> float:
        with virtual_time():
            await asyncio.sleep(10)
        await asyncio.sleep(10)
        return asyncio.get_running_loop().time()

    assert run(nest()) == 20.0


def test_a_blocking_handler_has_the_time_that_it_needs() -> None:
    async def compute() -> Waited:
        async with node(Waiting()) as waiting:
            return await waiting.hub.ask(Compute(0.1), timeout=60)

    assert run(compute()).seconds >= 0.1


def test_a_socket_wakes_the_loop() -> None:
    async def receive() -> bytes:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here, there:
            here.setblocking(False)
            sending = asyncio.to_thread(there.send, b"hello")
            received, _ = await asyncio.gather(loop.sock_recv(here, 5), sending)
        return received

    assert run(receive()) == b"hello"


def test_a_deadlock_is_an_error_and_not_an_endless_wait() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match="is an await missing"):
        run(wait_for_nothing())


def test_a_loop_that_cannot_be_virtual_is_refused() -> None:
    class OtherLoop(asyncio.AbstractEventLoop):
        """As uvloop's: it has no selector."""

    with pytest.raises(ArgumentError, match=r"hopline\.testing\.run"), virtual_time(OtherLoop()):  # type: ignore[abstract]
        pass


def test_a_runner_keeps_its_loop_and_its_time_from_one_coroutine_to_the_next() -> None:
    async def sleep() -> float:
        await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    with VirtualRunner() as runner:
        assert [runner.run(sleep()), runner.run(sleep())] == [100.0, 200.0]


def test_a_node_passes_its_settings_on() -> None:
    async def time_out() -> None:
        async with node(Pricing(), settings=NodeSettings(request_timeout=5), identity=b"shop") as pricing:
            assert pricing.identity == b"shop"
            with pytest.raises(AnswerTimeoutError, match="within 5 s"):
                await pricing.hub.ask(Price("lamp"))

    run(time_out())
