"""The condition variable of the event loop: no waiter misses a change, whenever it begins to wait."""

from __future__ import annotations

import asyncio

from hopline.transport import Condition
from tests.node.running import on_loop, soon, turns


@on_loop
async def test_a_predicate_that_holds_already_is_not_waited_for() -> None:
    await soon(Condition().wait_for(lambda: True))


@on_loop
async def test_a_change_between_asking_for_a_wait_and_its_first_step_is_seen() -> None:
    condition, state = Condition(), [False]
    waiting = asyncio.create_task(condition.wait_for(lambda: state[0]))
    state[0] = True
    condition.notify_all()  # the task has not begun: nobody is registered
    await soon(waiting)


@on_loop
async def test_every_waiter_is_woken_and_looks_for_itself() -> None:
    condition, state = Condition(), {"number": 0}
    first = asyncio.create_task(condition.wait_for(lambda: state["number"] >= 1))
    second = asyncio.create_task(condition.wait_for(lambda: state["number"] >= 2))
    await turns(2)
    state["number"] = 1
    condition.notify_all()
    await soon(first)
    await turns(2)
    assert not second.done()
    state["number"] = 2
    condition.notify_all()
    await soon(second)


@on_loop
async def test_a_waiter_that_is_cancelled_is_forgotten() -> None:
    condition = Condition()
    waiting = asyncio.create_task(condition.wait_for(lambda: False))
    await turns(2)
    waiting.cancel()
    await asyncio.wait([waiting])
    condition.notify_all()
    assert not condition._waiters
