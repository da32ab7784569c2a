"""The `on_dead_letter` hook gets what ended badly, whatever it does itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hopline import (
    Actor,
    ActorError,
    ArgumentError,
    DeadLetter,
    DeliveryError,
    Node,
    NodeSettings,
    Payload,
    Request,
    handler,
)
from hopline.observers.dead_letters import LETTERS_AT_ONCE, LETTERS_KEPT

from .running import on_loop, started, until


class Told(Payload):
    number: int


class Ask(Request[Told]):
    number: int


class Lost(Payload):
    number: int


class Failing(Actor):
    @handler
    async def tell(self, ask: Ask) -> Told:
        if ask.number:
            return Told(ask.number)
        raise ValueError("nothing to tell")


class Hanging(Actor):
    concurrency = 1

    @handler
    async def hang(self, lost: Lost) -> None:
        await asyncio.Event().wait()


def kinds(letters: list[DeadLetter]) -> list[tuple[str, str, str]]:
    return [(str(letter.message.identifier), letter.outcome, letter.reason) for letter in letters]


@on_loop
async def test_a_message_that_nobody_handles_is_a_dead_letter() -> None:
    letters: list[DeadLetter] = []
    async with started(on_dead_letter=letters.append) as node:
        with pytest.raises(DeliveryError):
            await node.hub.send(Lost(1))
        await node.hub.send_one_way(Lost(2))
        await until(lambda: len(letters) == 2)
    assert kinds(letters) == [("Lost/1", "unroutable", "nobody handles it")] * 2


@on_loop
async def test_a_message_whose_handler_fails_is_a_dead_letter_and_others_are_none() -> None:
    letters: list[DeadLetter] = []
    async with started(Failing(), on_dead_letter=letters.append) as node:
        assert await node.hub.ask(Ask(1)) == Told(1)
        with pytest.raises(ActorError):
            await node.hub.ask(Ask(0))
        await until(lambda: letters)
    assert kinds(letters) == [("Ask/1", "handler_error", "ValueError: nothing to tell")]


@on_loop
async def test_what_a_stopping_node_leaves_is_handed_over_before_it_has_stopped() -> None:
    letters: list[DeadLetter] = []
    settings = NodeSettings(drain_timeout=0.0)
    async with started(Hanging(), on_dead_letter=letters.append, settings=settings) as node:
        for number in (1, 2):
            node.hub.try_send_one_way(Lost(number))
        await until(lambda: node.hosts[0].running)
    assert [(letter.outcome, letter.reason.split(":")[0]) for letter in letters] == [
        ("failed", "its node stopped before it was handled"),
        ("handler_error", "hopline.actors.host.HandlerCancelledError"),
    ]


class Leaver(Actor):
    @handler
    def tell(self, ask: Ask) -> Told:
        return Told(ask.number)

    async def on_stop(self, node: Node) -> None:
        for number in range(LETTERS_KEPT):
            node.hub.try_send_one_way(Lost(number))


@on_loop
async def test_so_is_what_its_actors_send_in_vain_at_the_end_however_much() -> None:
    letters: list[DeadLetter] = []
    async with started(Leaver(), on_dead_letter=letters.append):
        pass
    assert len(letters) == LETTERS_KEPT > LETTERS_AT_ONCE


@on_loop
async def test_a_hook_that_raises_or_sends_what_is_lost_again_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    numbers: list[int] = []

    def again(letter: DeadLetter) -> None:
        numbers.append(len(numbers))
        if len(numbers) < 5:
            node.hub.try_send_one_way(Lost(len(numbers)))
        raise RuntimeError("the hook fails")

    with caplog.at_level(logging.CRITICAL, logger="hopline"):
        async with started(Failing(), on_dead_letter=again) as node:
            await node.hub.send_one_way(Lost(0))
            await until(lambda: len(numbers) == 5)
            assert await node.hub.ask(Ask(1)) == Told(1)
            assert node.stats().is_balanced


async def later(letter: DeadLetter) -> None:
    """Do what nobody would wait for."""


@pytest.mark.parametrize("hook", [later, "log"])
def test_a_hook_that_nobody_could_call_is_refused(hook: Any) -> None:
    with pytest.raises(ArgumentError, match="on_dead_letter: expected a plain function"):
        Node(on_dead_letter=hook)


@on_loop
async def test_more_letters_than_the_hook_can_take_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    letters: list[DeadLetter] = []
    async with started(on_dead_letter=letters.append) as node:
        with caplog.at_level(logging.WARNING, logger="hopline.dead_letters"):
            for number in range(LETTERS_KEPT + 7):
                node.hub.try_send_one_way(Lost(number))
            assert not letters  # never while the node is at work
            await until(lambda: len(letters) == LETTERS_KEPT)
    assert LETTERS_AT_ONCE < LETTERS_KEPT
    assert [record.getMessage() for record in caplog.records if record.name == "hopline.dead_letters"] == [
        "7 dead letters were dropped: on_dead_letter is too slow for them"
    ]
