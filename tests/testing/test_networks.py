"""Networks in one process: nodes find each other, and every fault that a test asks for happens, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hopline import ActorError, AnswerTimeoutError, ArgumentError, HoplineError
from hopline.simulation.loop import quiet_logs
from hopline.testing import InProcessNetwork, expect, network, run
from tests.testing.shop import Noted, Price, Priced, Pricing, Quote, Quoted, Quoting

Scenario = Callable[[InProcessNetwork], Coroutine[Any, Any, Any]]
LAMP = Priced("lamp", 2990)


def on_network(scenario: Scenario, seed: int = 0) -> Any:
    """Run a scenario on a network with a node `pricing` and a node `customer`."""

    async def play() -> Any:
        async with network(seed) as machines:
            await machines.add("pricing", Pricing(minutes=0))
            await machines.add("customer")
            return await scenario(machines)

    with quiet_logs():
        return run(play())


async def price(machines: InProcessNetwork, timeout: float = 10.0) -> Priced:
    return await machines["customer"].hub.ask(Price("lamp"), timeout=timeout)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_request_crosses_nodes() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        assert await price(machines) == LAMP
        expect(machines["customer"]).sent(Price("lamp"), count=1)
        expect(machines["customer"]).not_sent(Priced)
        expect(machines["pricing"]).sent(LAMP, count=1)

    on_network(scenario)


def test_the_record_of_the_network_has_everything_in_its_order_and_who_sent_it() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        await machines.add("quoting", Quoting())
        await machines["customer"].hub.ask(Quote("lamp"), timeout=10)
        expect(machines).sent_in_order(Quote("lamp"), Price("lamp"), LAMP, Quoted("lamp: 29.90"))
        with pytest.raises(AssertionError) as failure:
            expect(machines).nothing_sent()
        lines = str(failure.value).splitlines()
        assert lines[1] == "  1. customer: Quote(sku='lamp')"
        assert lines[-1].endswith("quoting: Quoted(text='lamp: 29.90')")

    on_network(scenario)


def test_a_dropped_message_is_never_answered_and_the_next_one_is() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        with machines.faults(drop=1.0, only=Price, times=1):
            with pytest.raises(AnswerTimeoutError):
                await price(machines, timeout=60)
            assert await price(machines) == LAMP
        expect(machines["customer"]).sent(Price, count=2)
        expect(machines["pricing"]).sent(Priced, count=1)

    on_network(scenario)


def test_only_the_kinds_that_are_named_are_affected() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        with machines.faults(drop=1.0, only=[Noted, Quote]):
            assert await price(machines) == LAMP
        with machines.faults(drop=1.0, only=Priced), pytest.raises(AnswerTimeoutError):
            await price(machines)
        expect(machines["pricing"]).sent(LAMP, count=2)

    on_network(scenario)


def test_a_delayed_message_takes_its_time() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        began = now()
        with machines.faults(latency=300, only=Price):
            assert await price(machines, timeout=400) == LAMP
        assert now() - began == pytest.approx(300, abs=1)
        began = now()
        await price(machines)
        assert now() - began < 1

    on_network(scenario)


def test_a_duplicated_message_is_handled_twice() -> None:
    pricing = Pricing(minutes=0)

    async def scenario(machines: InProcessNetwork) -> None:
        await machines.kill("pricing")
        await machines.add("pricing", pricing)
        with machines.faults(duplicate=1.0, only=Price):
            await price(machines)
        assert pricing.asked == ["lamp", "lamp"]

    on_network(scenario)


def test_the_same_seed_loses_the_same_messages_and_another_one_others() -> None:
    async def scenario(machines: InProcessNetwork) -> list[bool]:
        arrived = []
        with machines.faults(drop=0.5, only=Price):
            for _ in range(20):
                try:
                    await price(machines)
                except AnswerTimeoutError:
                    arrived.append(False)
                else:
                    arrived.append(True)
        return arrived

    first = on_network(scenario, seed=1)
    assert {True, False} == set(first)
    assert on_network(scenario, seed=1) == first
    assert on_network(scenario, seed=2) != first


@pytest.mark.parametrize("noticed", [True, False])
def test_a_killed_node_does_not_answer_and_can_be_started_again(noticed: bool) -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        await machines.kill("pricing", noticed=noticed)
        with pytest.raises(HoplineError):
            await price(machines)
        await machines.settled()
        assert not machines["customer"].known_nodes
        await machines.add("pricing", Pricing(minutes=0))
        assert await price(machines) == LAMP

    on_network(scenario)


def test_a_node_that_is_cut_off_is_not_reached_until_the_network_is_mended() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        machines.cut("pricing")
        with pytest.raises(HoplineError):
            await price(machines)
        machines.mend()
        await machines.settled()
        assert await price(machines) == LAMP

    on_network(scenario)


def test_nodes_that_are_cut_off_together_reach_each_other() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        await machines.add("other")
        machines.cut("pricing", "customer")
        assert await price(machines) == LAMP
        with pytest.raises(HoplineError):
            await machines["other"].hub.ask(Price("lamp"), timeout=10)

    on_network(scenario)


def test_waiting_for_a_network_that_cannot_settle_ends() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        await machines.kill("pricing", noticed=False)
        with pytest.raises(TimeoutError):
            await machines.settled(within=0.1)

    on_network(scenario)


def test_a_handler_that_fails_on_another_node_is_an_actor_error() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        with pytest.raises(ActorError, match="KeyError: 'sofa'"):
            await machines["customer"].hub.ask(Price("sofa"), timeout=10)

    on_network(scenario)


@pytest.mark.parametrize(
    ("mistake", "problem"),
    [
        (lambda machines: machines["nobody"], "one of pricing, customer"),
        (lambda machines: machines.cut("nobody"), "one of pricing, customer"),
        (lambda machines: machines.faults(drop=2.0).__enter__(), "drop: expected a number from 0 to 1"),
        (lambda machines: machines.faults(only=int).__enter__(), "a class derived from Payload"),
    ],
)
def test_mistakes_are_named(mistake: Callable[[InProcessNetwork], object], problem: str) -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        with pytest.raises(ArgumentError, match=problem):
            mistake(machines)

    on_network(scenario)


def test_two_nodes_cannot_have_one_name() -> None:
    async def scenario(machines: InProcessNetwork) -> None:
        with pytest.raises(ArgumentError, match="no other node"):
            await machines.add("customer")

    on_network(scenario)
