"""The callers of a simulation: every call must get its own reply, or an error with the reason."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from hopline.message import (
    RECEIPT,
    ActorError,
    AnswerTimeoutError,
    AnyPayload,
    DeliveryError,
    HoplineError,
    MessageIdentifier,
    NoRoomError,
    NotRunningError,
    payload_type,
    to_message,
)
from hopline.simulation.actors import (
    TROUBLE,
    Acknowledgement,
    Answer,
    Ask,
    Finish,
    Middle,
    News,
    Note,
    Poke,
    Start,
    Trip,
)
from hopline.simulation.invariants import Violation
from hopline.simulation.machine import Machine


class Callers:
    """Makes calls of all kinds from all machines."""

    def __init__(self, machines: list[Machine], random: Random, log: Callable[[str], None]) -> None:
        self.results: Counter[str] = Counter()
        self._machines = machines
        self._random = random
        self._log = log
        self._calls = 0

    async def call_from(self, machine: Machine, until: float) -> None:
        """Make random calls from a machine, one after the other, until a time."""
        calls: tuple[Callable[[Machine, int], Awaitable[str]], ...] = (
            self._ask,
            self._ask,
            self._pipeline,
            self._broadcast,
            self._poke,
            self._send_one_way,
            self._receipt,
            self._direct,
            self._cancel,
        )
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(self._random.expovariate(8))
            if not machine.is_up:
                continue
            self._calls += 1
            uid = self._calls
            call = self._random.choice(calls)
            result = await _result_of(call(machine, uid))
            self.results[result] += 1
            self._log(f"{machine.name} {call.__name__} {uid} {result}")

    async def check_calls(self) -> None:
        """Check that without faults every call gets its reply, or the right error, in time."""
        calls: list[tuple[AnyPayload, type | MessageIdentifier, str]] = [
            (Ask(0), Answer, "answered"),
            (Note(0), RECEIPT, "answered"),
            (News(0), Acknowledgement, "answered"),
            (Trip(0), Answer, "ActorError"),
        ]
        for machine in self._machines:
            for content, callback, expected in calls:
                result = "answered"
                try:
                    await machine.node.hub.send(content, callback=[callback])
                except HoplineError as error:
                    result = type(error).__name__
                if not self._is_handled(type(content)):
                    expected = "DeliveryError"
                if result != expected:
                    raise Violation(f"without faults, {machine.name} sent {content!r}: {result}, not {expected}")

    async def check_discovery(self) -> None:
        """Check that a machine that has forgotten all others discovers a handler for a call."""
        for machine in self._machines:
            can_wait = bool(machine.settings.unrouted_capacity)
            if not (can_wait and self._is_handled(Ask)):
                continue
            for other in self._machines:
                machine.membership.remove_node(other.identity)
            try:
                await machine.node.hub.send(Ask(0), callback=Answer)
            except HoplineError as error:
                raise Violation(f"without faults, {machine.name} discovered no handler: {error}") from error

    async def check_backpressure(self) -> None:
        """Check that of two simultaneous calls between two machines the second waits for room on the link."""
        identifier = payload_type(Ask).identifier
        for machine, other in itertools.permutations(self._machines, 2):
            if not other.node.router.directory.advertised(identifier):
                continue
            hub = machine.node.hub
            ask = to_message(Ask(0)).with_receiver_node(other.identity)
            first = hub.send(ask, callback=Answer)
            second = hub.send(ask, callback=Answer)
            try:
                await asyncio.gather(first, second)
            except HoplineError as error:
                raise Violation(f"without faults, {machine.name} found no room: {error}") from error

    def _is_handled(self, kind: type) -> bool:
        identifier = payload_type(kind).identifier
        return any(machine.node.router.directory.advertised(identifier) for machine in self._machines)

    def _timeout(self) -> float:
        return self._random.choice((0.05, 0.5, 5.0))

    async def _ask(self, machine: Machine, uid: int) -> str:
        answer = await machine.node.hub.send(Ask(uid), callback=Answer, timeout=self._timeout())
        return _checked(answer.uid == uid and answer.answer == uid + 1)

    async def _pipeline(self, machine: Machine, uid: int) -> str:
        finish = await machine.node.hub.send(Start(uid), callback=(Finish, Answer), timeout=self._timeout())
        return _checked(isinstance(finish, Finish) and finish.uid == uid)

    async def _broadcast(self, machine: Machine, uid: int) -> str:
        timeout = self._random.choice((0.1, 1.0))
        stream = machine.node.hub.stream(News(uid), callback=Acknowledgement, timeout=timeout)
        if machine.hub_port is not None:
            machine.hub_port.streams.add(stream.key)
        async with stream:
            async for acknowledgement in stream:
                _checked(acknowledgement.uid == uid)
        return "broadcast"

    async def _poke(self, machine: Machine, uid: int) -> str:
        how = self._random.choice(TROUBLE)
        answer = await machine.node.hub.send(Poke(uid, how), callback=Answer, timeout=self._timeout())
        return _checked(answer.uid == uid)

    async def _send_one_way(self, machine: Machine, uid: int) -> str:
        ttl_ticks = self._random.choice((0, 1_000_000))
        note = to_message(Note(uid)).clone(ttl_ticks=ttl_ticks)
        await machine.node.hub.send_one_way(note)
        return "sent"

    async def _receipt(self, machine: Machine, uid: int) -> str:
        await machine.node.hub.send(Note(uid), timeout=self._timeout())
        return "receipt"

    async def _direct(self, machine: Machine, uid: int) -> str:
        other = self._random.choice(self._machines)
        message = to_message(Ask(uid)).with_receiver_node(other.identity)
        answer = await machine.node.hub.send(message, callback=Answer, timeout=self._timeout())
        return _checked(answer.uid == uid and answer.where == other.name)

    async def _cancel(self, machine: Machine, uid: int) -> str:
        task = asyncio.ensure_future(machine.node.hub.send(Middle(uid), callback=Finish))
        await asyncio.sleep(self._random.choice((0.0, 0.001)))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "answered"


async def _result_of(call: Awaitable[str]) -> str:
    """Return how a call ended, as one word for the report."""
    try:
        return await call
    except ActorError as error:
        _, _, name = error.type_name.rpartition(".")
        return f"actor failed with {name}"
    except DeliveryError as error:
        return error.outcome
    except (AnswerTimeoutError, NoRoomError, NotRunningError) as error:
        return type(error).__name__
    except HoplineError as error:
        raise Violation(f"a caller got {error!r}") from error


def _checked(is_right: bool) -> str:
    if not is_right:
        raise Violation("a caller got the reply to another call")
    return "answered"
