"""The callers of a simulation: whatever comes back, it must be theirs, or an error that says why."""

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
    DeliveryError,
    HoplineError,
    MessageIdentifier,
    NoRoomError,
    NotRunningError,
    payload_type,
    to_message,
)
from hopline.simulation.actors import TROUBLE, Ask, Finish, Heard, Middle, News, Note, Poke, Start, Told, Trip
from hopline.simulation.machine import Machine
from hopline.simulation.watch import Violation


class Callers:
    """People on the machines who ask for all kinds of things."""

    def __init__(self, machines: list[Machine], random: Random, note: Callable[[str], None]) -> None:
        self.fared: Counter[str] = Counter()
        self._machines = machines
        self._random = random
        self._note_down = note
        self._uids = 0

    async def call_from(self, machine: Machine, until: float) -> None:
        """Make calls from a machine, one after the other, until a time."""
        calls: tuple[Callable[[Machine, int], Awaitable[str]], ...] = (
            self._ask,
            self._ask,
            self._pipeline,
            self._listen,
            self._poke,
            self._note,
            self._receipt,
            self._direct,
            self._impatient,
        )
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(self._random.expovariate(8))
            if not machine.is_up:
                continue
            self._uids += 1
            call, uid = self._random.choice(calls), self._uids
            try:
                fared = await call(machine, uid)
            except ActorError as error:
                fared = f"actor failed with {error.type_name.rpartition('.')[2]}"
            except DeliveryError as error:
                fared = error.outcome
            except (AnswerTimeoutError, NoRoomError, NotRunningError) as error:
                fared = type(error).__name__
            except HoplineError as error:
                raise Violation(f"a caller got {error!r}") from error
            self.fared[fared] += 1
            self._note_down(f"{machine.name} {call.__name__} {uid} {fared}")

    async def expect_to_be_served(self) -> None:
        """Call when all is well: whoever can be answered is, and whoever cannot is told, before the time is over."""
        calls: list[tuple[object, type | MessageIdentifier, str]] = [
            (Ask(0), Told, "answered"),
            (Note(0), RECEIPT, "answered"),
            (News(0), Heard, "answered"),
            (Trip(0), Told, "ActorError"),
        ]
        for machine in self._machines:
            for content, callback, expected in calls:
                fared = "answered"
                try:
                    await machine.node.hub.send(content, callback=[callback])
                except HoplineError as error:
                    fared = type(error).__name__
                if not self._is_handled(type(content)):
                    expected = "DeliveryError"
                if fared != expected:
                    raise Violation(f"all was well, but {machine.name} sent {content}: {fared}, not {expected}")

    async def expect_to_be_found(self) -> None:
        """Let each machine forget all others and call at once: it asks around, and whoever handles it is found."""
        for machine in self._machines:
            if machine.settings.parked_messages and self._is_handled(Ask):
                for other in self._machines:
                    machine.membership.lost(other.identity)
                try:
                    await machine.node.hub.send(Ask(0), callback=Told)
                except HoplineError as error:
                    raise Violation(f"all was well, but {machine.name} could not find who answers: {error}") from error

    async def expect_room(self) -> None:
        """Let each machine call each other one twice at once: the second waits for room on the way, and gets it."""
        for machine, other in itertools.permutations(self._machines, 2):
            if other.node.router.directory.advertised(payload_type(Ask).identifier):
                hub, ask = machine.node.hub, to_message(Ask(0)).with_receiver_node(other.identity)
                try:
                    await asyncio.gather(hub.send(ask, callback=Told), hub.send(ask, callback=Told))
                except HoplineError as error:
                    raise Violation(f"all was well, but {machine.name} found no room: {error}") from error

    def _is_handled(self, kind: type) -> bool:
        identifier = payload_type(kind).identifier
        return any(machine.node.router.directory.advertised(identifier) for machine in self._machines)

    def _timeout(self) -> float:
        return self._random.choice((0.05, 0.5, 5.0))

    async def _ask(self, machine: Machine, uid: int) -> str:
        told = await machine.node.hub.send(Ask(uid), callback=Told, timeout=self._timeout())
        return _right(told.uid == uid and told.answer == uid + 1)

    async def _pipeline(self, machine: Machine, uid: int) -> str:
        finish = await machine.node.hub.send(Start(uid), callback=(Finish, Told), timeout=self._timeout())
        return _right(isinstance(finish, Finish) and finish.uid == uid)

    async def _listen(self, machine: Machine, uid: int) -> str:
        stream = machine.node.hub.stream(News(uid), callback=Heard, timeout=self._random.choice((0.1, 1.0)))
        if machine.hub_port is not None:
            machine.hub_port.streams.add(stream.key)
        async with stream:
            async for heard in stream:
                _right(heard.uid == uid)
        return "listened"

    async def _poke(self, machine: Machine, uid: int) -> str:
        how = self._random.choice(TROUBLE)
        told = await machine.node.hub.send(Poke(uid, how), callback=Told, timeout=self._timeout())
        return _right(told.uid == uid)

    async def _note(self, machine: Machine, uid: int) -> str:
        note = to_message(Note(uid))
        await machine.node.hub.send_one_way(note.clone(ttl_ticks=self._random.choice((0, 1_000_000))))
        return "noted"

    async def _receipt(self, machine: Machine, uid: int) -> str:
        await machine.node.hub.send(Note(uid), timeout=self._timeout())
        return "receipt"

    async def _direct(self, machine: Machine, uid: int) -> str:
        other = self._random.choice(self._machines)
        message = to_message(Ask(uid)).with_receiver_node(other.identity)
        told = await machine.node.hub.send(message, callback=Told, timeout=self._timeout())
        return _right(told.uid == uid and told.where == other.name)

    async def _impatient(self, machine: Machine, uid: int) -> str:
        task = asyncio.ensure_future(machine.node.hub.send(Middle(uid), callback=Finish))
        await asyncio.sleep(self._random.choice((0.0, 0.001)))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "answered"


def _right(is_right: bool) -> str:
    if not is_right:
        raise Violation("a caller got somebody else's answer")
    return "answered"
