"""`on_start` and `on_stop` of actors: their order, their errors, their time; and actors added while the node runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hopline import Actor, ArgumentError, Node, NodeSettings, NotRunningError, Payload, handler
from hopline.errors import StartError

from .running import in_vain, on_loop, soon, started, until


class Ask(Payload):
    number: int


class Told(Payload):
    number: int


class Farewell(Payload):
    name: str


class Recorded(Actor):
    """Writes down what happens to it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    async def on_start(self, node: Node) -> None:
        assert node.is_running
        self.log.append(f"{self.name} starts")
        await asyncio.sleep(0)
        self.log.append(f"{self.name} started")

    async def on_stop(self, node: Node) -> None:
        assert node.is_running
        self.log.append(f"{self.name} stops")
        await asyncio.sleep(0)
        self.log.append(f"{self.name} stopped")


class Answering(Recorded):
    @handler
    async def answer(self, ask: Ask) -> Told:
        await asyncio.sleep(0)
        self.log.append(f"{self.name} handled")
        return Told(ask.number)


class Failing(Recorded):
    async def on_start(self, node: Node) -> None:
        raise ConnectionError("no database")


class FailingToStop(Recorded):
    async def on_stop(self, node: Node) -> None:
        raise ConnectionError("the database has gone")


class Endless(Recorded):
    """Neither starts nor stops by itself."""

    def __init__(self, name: str, log: list[str]) -> None:
        super().__init__(name, log)
        self.is_starting = asyncio.Event()

    async def on_start(self, node: Node) -> None:
        self.is_starting.set()
        await asyncio.Event().wait()


class EndlessToStop(Recorded):
    async def on_stop(self, node: Node) -> None:
        self.log.append(f"{self.name} stops")
        await asyncio.Event().wait()


@on_loop
async def test_actors_start_in_their_order_before_any_message_and_stop_in_reverse_after_the_last_handler() -> None:
    log: list[str] = []
    async with started(Answering("first", log), Recorded("second", log)) as node:
        log.append("running")
        asked = node.hub.try_send(Ask(1), callback=Told)
    assert (await asked).number == 1
    assert log == [
        *("first starts", "first started", "second starts", "second started", "running"),
        *("first handled", "second stops", "second stopped", "first stops", "first stopped"),
    ]


@on_loop
async def test_no_actor_gets_messages_before_all_have_started() -> None:
    log: list[str] = []

    class Impatient(Recorded):
        async def on_start(self, node: Node) -> None:
            assert node.is_starting
            self.asked = node.hub.try_send(Ask(1), callback=Told)
            for _ in range(10):
                await asyncio.sleep(0)
            self.log.append("all have started")

    impatient = Impatient("second", log)
    async with started(Answering("first", log), impatient, discover=in_vain) as node:
        assert not node.is_starting
        assert (await impatient.asked).number == 1
        assert log == ["first starts", "first started", "all have started", "first handled"]


@on_loop
async def test_an_actor_that_another_one_removes_as_it_starts_does_not_start() -> None:
    log: list[str] = []
    second = Recorded("second", log)

    class Choosing(Recorded):
        async def on_start(self, node: Node) -> None:
            await node.remove(second)

    async with started(Choosing("first", log), second, Recorded("third", log)) as node:
        assert second not in node.actors
    assert log == ["third starts", "third started", "third stops", "third stopped", "first stops", "first stopped"]


@on_loop
async def test_a_node_restarts_with_its_actors() -> None:
    log: list[str] = []
    node = Node(Recorded("a", log))
    for _ in range(2):
        async with node:
            pass
    assert log == ["a starts", "a started", "a stops", "a stopped"] * 2


@on_loop
async def test_an_error_in_on_start_refuses_the_start_and_stops_those_that_have_started() -> None:
    log: list[str] = []
    node = Node(Recorded("a", log), Recorded("b", log), Failing("c", log), Recorded("d", log))
    with pytest.raises(StartError, match="on_start of Failing failed: ConnectionError: no database") as caught:
        await node.start()
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert not node.is_running
    assert log == ["a starts", "a started", "b starts", "b started", "b stops", "b stopped", "a stops", "a stopped"]


@on_loop
async def test_cancelling_a_start_stops_those_that_have_started() -> None:
    log: list[str] = []
    endless = Endless("b", log)
    node = Node(Recorded("a", log), endless)
    starting = asyncio.create_task(node.start())
    await soon(endless.is_starting.wait())
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert log == ["a starts", "a started", "a stops", "a stopped"]
    assert not node.is_running


@on_loop
async def test_a_node_that_is_stopped_while_it_starts_does_not_go_on() -> None:
    log: list[str] = []

    class Stopping(Recorded):
        async def on_start(self, node: Node) -> None:
            await node.stop()

    with pytest.raises(NotRunningError, match="stopped while it started"):
        await Node(Recorded("a", log), Stopping("b", log), Recorded("c", log)).start()
    assert log == ["a starts", "a started", "a stops", "a stopped"]


@on_loop
async def test_an_error_in_on_stop_is_logged_and_the_others_still_stop(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    async with started(Recorded("a", log), FailingToStop("b", log)):
        pass
    assert log[-2:] == ["a stops", "a stopped"]
    assert "on_stop of FailingToStop failed: ConnectionError: the database has gone" in caplog.text


@on_loop
async def test_an_on_stop_has_a_limited_time(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    settings = NodeSettings(stop_timeout=0.01)
    async with started(Recorded("a", log), EndlessToStop("b", log), settings=settings):
        pass
    assert log[-3:] == ["b stops", "a stops", "a stopped"]
    assert "on_stop of EndlessToStop did not end within 0.01 s, and is cancelled" in caplog.text


@on_loop
async def test_what_on_stop_sends_is_answered_by_other_nodes_but_not_by_this_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, logger="hopline")
    outcomes: list[str] = []

    class Asking(Answering):
        async def on_stop(self, node: Node) -> None:
            try:
                await node.hub.send(Ask(1), callback=Told, timeout=0.05)
            except Exception as error:
                outcomes.append(type(error).__name__)

    async with started(Asking("a", [])):
        pass
    assert len(outcomes) == 1
    assert outcomes[0] in ("AnswerTimeoutError", "DeliveryError")


@on_loop
async def test_stopping_a_node_from_on_stop_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    class Stopping(Recorded):
        async def on_stop(self, node: Node) -> None:
            await node.stop()

    async with started(Stopping("a", [])):
        pass
    assert "a call from outside on_stop" in caplog.text


@on_loop
async def test_an_actor_that_is_added_to_a_running_node_starts_before_its_first_message() -> None:
    log: list[str] = []
    async with started(discover=in_vain) as node:
        asked = node.hub.try_send(Ask(7), callback=Told)  # waits for a route
        actor = Answering("late", log)
        await soon(node.add(actor))
        assert log[:2] == ["late starts", "late started"]
        assert (await soon(asked)).number == 7
        await node.remove(actor)
        assert log[2:] == ["late handled", "late stops", "late stopped"]
    assert len(log) == 5


@on_loop
async def test_adding_an_actor_need_not_be_awaited() -> None:
    log: list[str] = []
    async with started(discover=in_vain) as node:
        node.add(Answering("late", log))
        assert (await soon(node.hub.send(Ask(7), callback=Told))).number == 7
    assert log == ["late starts", "late started", "late handled", "late stops", "late stopped"]


@on_loop
async def test_an_actor_whose_start_fails_is_not_added(caplog: pytest.LogCaptureFixture) -> None:
    async with started() as node:
        with pytest.raises(StartError, match="no database"):
            await node.add(Failing("late", []))
        assert node.actors == ()
        node.add(Failing("late", []))
        await until(lambda: node.actors == ())
    assert caplog.text.count("Failing was not added: on_start of Failing failed: ConnectionError: no database") == 2


@on_loop
async def test_an_actor_that_still_starts_can_be_removed_and_does_not_hold_up_the_stop() -> None:
    log: list[str] = []
    removed, left = Endless("removed", log), Endless("left", log)
    async with started() as node:
        node.add(removed)
        waiting = asyncio.ensure_future(node.add(left))
        await soon(left.is_starting.wait())
        await soon(node.remove(removed))
        assert node.actors == (left,)
    with pytest.raises(NotRunningError, match="stopped while the actor started"):
        await waiting
    assert log == []


@on_loop
async def test_an_actor_that_is_added_by_another_ones_start_starts_too() -> None:
    log: list[str] = []

    class Parent(Recorded):
        async def on_start(self, node: Node) -> None:
            node.add(Answering("child", self.log))

    async with started(Parent("parent", log)) as node:
        assert len(node.hosts) == 2
        assert log == ["child starts", "child started"]


def test_hooks_are_async() -> None:
    class Plain(Actor):
        def on_start(self, node: Any) -> None: ...  # type: ignore[override]

    with pytest.raises(ArgumentError, match=r"Plain\.on_start: expected async def on_start\(self, node\), found"):
        Node(Plain())


@on_loop
async def test_a_node_holds_its_lifespan_from_before_its_actors_start_until_after_they_stop() -> None:
    log: list[str] = []

    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        log.append("opened")
        yield
        assert log[-1] == "a stopped"
        log.append("closed")

    async with started(Recorded("a", log), lifespan=lifespan):
        assert log == ["opened", "a starts", "a started"]
    assert log[-1] == "closed"


@on_loop
async def test_a_lifespan_that_fails_refuses_the_start() -> None:
    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        raise ConnectionError("no database")
        yield

    log: list[str] = []
    node = Node(Recorded("a", log), lifespan=lifespan)
    with pytest.raises(ConnectionError):
        await node.start()
    assert not node.is_running
    assert log == []


@on_loop
async def test_a_lifespan_may_hold_a_task_group() -> None:
    ticks = asyncio.Event()

    async def tick() -> None:
        while True:
            ticks.set()
            await asyncio.sleep(0.001)

    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(tick())
            yield
            task.cancel()

    node = Node(lifespan=lifespan)
    await asyncio.create_task(node.start())
    await soon(ticks.wait())
    await asyncio.create_task(node.stop())
    assert not node.is_running


@on_loop
async def test_a_lifespan_that_ends_while_the_node_runs_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    started_up = asyncio.Event()

    async def lose_the_database() -> None:
        await started_up.wait()
        raise ConnectionError("the database has gone")

    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(lose_the_database())
            yield

    node = Node(lifespan=lifespan)
    await node.start()
    assert not caplog.records
    started_up.set()
    await until(lambda: "the lifespan of the node has ended while the node runs" in caplog.text)
    with pytest.raises(ExceptionGroup) as caught:
        await node.stop()
    assert caught.group_contains(ConnectionError, match="has gone")


@on_loop
async def test_an_error_of_a_lifespan_that_is_left_is_raised_by_the_stop() -> None:
    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        yield
        raise ConnectionError("the database has gone")

    node = Node(lifespan=lifespan)
    await node.start()
    with pytest.raises(ConnectionError, match="has gone"):
        await node.stop()
    assert not node.is_running


@on_loop
async def test_cancelling_the_start_leaves_a_lifespan_that_is_being_entered() -> None:
    log: list[str] = []
    entering = asyncio.Event()

    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        try:
            entering.set()
            await asyncio.Event().wait()
            yield
        finally:
            log.append("left")

    node = Node(lifespan=lifespan)
    starting = asyncio.create_task(node.start())
    await soon(entering.wait())
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert log == ["left"]
    assert not node.is_running
