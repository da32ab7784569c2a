"""One simulated world: machines, callers, faults, and a directory that spreads what lives where, all from a seed."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec

from hopline.message import (
    ActorError,
    AnswerTimeoutError,
    DeliveryError,
    HoplineError,
    Message,
    NoRoomError,
    NotRunningError,
    payload_type,
    to_message,
)
from hopline.node import Sought, sought
from hopline.routing import Route
from hopline.simulation.actors import (
    TROUBLE,
    Ask,
    Finish,
    Heard,
    Middle,
    News,
    Note,
    Poke,
    Start,
    Told,
)
from hopline.simulation.loop import VirtualLoop
from hopline.simulation.network import Network, Traffic, Weather
from hopline.simulation.participants import Machine
from hopline.simulation.watch import Violation, Watch

BUSY_SECONDS = 8.0  # virtual time with callers and faults
QUIET_SECONDS = 40.0  # virtual time for everything to end
SEARCH_PERIOD = 0.2  # the time in which the same search is not repeated

Call = Callable[[Machine, int], Awaitable[str]]


class Report(msgspec.Struct, frozen=True):
    """What happened in a simulated world. The same seed gives the same report, fingerprint included."""

    seed: int
    machines: int
    steps: int
    calls: dict[str, int]  # how the callers fared
    outcomes: dict[str, int]
    traffic: Traffic
    faults: dict[str, int]
    fingerprint: str


class World:
    """Everything that happens in one simulation."""

    def __init__(self, seed: int, loop: VirtualLoop, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self._loop = loop
        self._trace = trace
        self._history = hashlib.sha256()
        self._faults = Random(f"{seed}/faults")  # noqa: S311 - chance, not secrets
        self._work = Random(f"{seed}/work")  # noqa: S311
        self._gossip = Random(f"{seed}/gossip")  # noqa: S311
        shape = Random(f"{seed}/shape")  # noqa: S311
        hop_limit = shape.choice((1, 2, 4))
        self.watch = Watch(hop_limit)
        self.network = Network(loop, Random(f"{seed}/network"), link_capacity=shape.choice((1, 5, 1000)))  # noqa: S311
        self.machines = [
            Machine(f"m{number}", self.network, self.watch, shape, hop_limit, self._discover)
            for number in range(shape.randint(1, 5))
        ]
        self._by_identity = {machine.identity: machine for machine in self.machines}
        self.network.on_sent = self._sent
        self.calls: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._uids = 0
        self._searches: dict[tuple[bytes, Sought], float] = {}
        self._faults_over = False

    def note(self, what: str) -> None:
        """Write history: it is what replays are compared by."""
        line = f"{self._loop.time():.6f} {what}"
        self._history.update(line.encode() + b"\\n")
        if self._trace is not None:
            self._trace(line)

    # -- the run -------------------------------------------------------------------------------------------------------

    async def run(self) -> Report:
        """Live through it all: busy and bad times, then quiet ones, then the end, when nothing may be left."""
        self._loop.set_exception_handler(self._unexpected_error)
        self._loop.check_after_every_step(lambda: self.watch.check(machine.node for machine in self.machines))
        for machine in self.machines:
            await self._start(machine)
        async with asyncio.TaskGroup() as group:
            bad_times = group.create_task(self._bad_times())
            callers = [group.create_task(self._caller(machine)) for machine in self.machines for _ in range(3)]
            await asyncio.wait([bad_times, *callers])
        await self._make_peace()
        await asyncio.sleep(QUIET_SECONDS)
        self._expect_nothing_left()
        for machine in self.machines:
            await machine.shut_down()
        self._loop.check_after_every_step(None)
        self.watch.check([])
        return Report(
            seed=self.seed,
            machines=len(self.machines),
            steps=self.watch.steps,
            calls=dict(sorted(self.calls.items())),
            outcomes={outcome.value: count for outcome, count in sorted(self.watch.endings.items())},
            traffic=self.network.traffic,
            faults=dict(sorted(self.faults.items())),
            fingerprint=self._history.hexdigest(),
        )

    def _unexpected_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.watch.note(f"{context['message']}: {context.get('exception')!r}")

    def _expect_nothing_left(self) -> None:
        for machine in self.machines:
            stats = machine.node.stats()
            hanging = sum(host.running for host in machine.node.hosts)
            if stats.waiting and not hanging:  # behind a handler that hangs, messages without a lifetime wait forever
                raise Violation(f"{machine.name} still holds messages when all is quiet: {stats}")
            if stats.promised:
                raise Violation(f"{machine.name} still waits for answers that nobody wants: {stats}")

    # -- callers -------------------------------------------------------------------------------------------------------

    async def _caller(self, machine: Machine) -> None:
        calls: tuple[Call, ...] = (
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
        while self._loop.time() < BUSY_SECONDS:
            await asyncio.sleep(self._work.expovariate(8))
            if not machine.is_up:
                continue
            self._uids += 1
            call, uid = self._work.choice(calls), self._uids
            try:
                outcome = await call(machine, uid)
            except ActorError as error:
                outcome = f"actor failed with {error.type_name.rpartition('.')[2]}"
            except DeliveryError as error:
                outcome = error.outcome
            except (AnswerTimeoutError, NoRoomError, NotRunningError) as error:
                outcome = type(error).__name__
            except HoplineError as error:
                raise Violation(f"a caller got {error!r}") from error
            self.calls[outcome] += 1
            self.note(f"{machine.name} {call.__name__} {uid} {outcome}")

    def _timeout(self) -> float:
        return self._work.choice((0.05, 0.5, 5.0))

    async def _ask(self, machine: Machine, uid: int) -> str:
        told = await machine.node.hub.send(Ask(uid), callback=Told, timeout=self._timeout())
        return self._right(told.uid == uid and told.answer == uid + 1)

    async def _pipeline(self, machine: Machine, uid: int) -> str:
        finish = await machine.node.hub.send(Start(uid), callback=(Finish, Told), timeout=self._timeout())
        return self._right(isinstance(finish, Finish) and finish.uid == uid)

    async def _listen(self, machine: Machine, uid: int) -> str:
        stream = machine.node.hub.stream(News(uid), callback=Heard, timeout=self._work.choice((0.1, 1.0)))
        if machine.hub_port is not None:
            machine.hub_port.streams.add(stream.key)
        async with stream:
            async for heard in stream:
                self._right(heard.uid == uid)
        return "listened"

    async def _poke(self, machine: Machine, uid: int) -> str:
        how = self._work.choice(TROUBLE)
        told = await machine.node.hub.send(Poke(uid, how), callback=Told, timeout=self._timeout())
        return self._right(told.uid == uid)

    async def _note(self, machine: Machine, uid: int) -> str:
        note = to_message(Note(uid))
        await machine.node.hub.send_one_way(note.clone(ttl_ticks=self._work.choice((0, 1_000_000))))
        return "noted"

    async def _receipt(self, machine: Machine, uid: int) -> str:
        await machine.node.hub.send(Note(uid), timeout=self._timeout())
        return "receipt"

    async def _direct(self, machine: Machine, uid: int) -> str:
        other = self._work.choice(self.machines)
        message = to_message(Ask(uid)).with_receiver_node(other.identity)
        told = await machine.node.hub.send(message, callback=Told, timeout=self._timeout())
        return self._right(told.uid == uid)

    async def _impatient(self, machine: Machine, uid: int) -> str:
        hub = machine.node.hub
        before = hub.waiting
        task = asyncio.ensure_future(hub.send(Middle(uid), callback=Finish))
        await asyncio.sleep(self._work.choice((0.0, 0.001)))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if hub.waiting > before + 2:  # other callers of this hub may have begun to wait
                raise Violation("a cancelled caller left something behind") from None
            return "cancelled"
        return "answered"

    def _right(self, is_right: bool) -> str:
        if not is_right:
            raise Violation("a caller got somebody else's answer")
        return "answered"

    # -- what lives where ----------------------------------------------------------------------------------------------

    def _sent(self, node: bytes, message: Message) -> None:
        self.watch.sent(node, message, self._by_identity[node].clock())

    def _later(self, action: Callable[[], None]) -> None:
        """Do something that gossip does: soon, or never."""
        if self._faults_over or self._gossip.random() > 0.1:
            self._loop.call_later(self._gossip.expovariate(50), action)

    def _announce(self, machine: Machine, to: Iterable[Machine] | None = None) -> None:
        """Tell others, or everyone, what lives on a machine."""
        routes = machine.node.router.advertised()
        for other in self.machines if to is None else to:
            if other is not machine and not self.network.is_cut(machine.identity, other.identity):
                self._later(functools.partial(self._learn, other, machine, routes))

    def _learn(self, other: Machine, machine: Machine, routes: list[Route]) -> None:
        if other.is_up:
            for route in routes:
                other.node.router.learn(machine.identity, machine.node.uri, route.receiver, route.identifier)

    def _discover(self, machine: Machine, message: Message) -> None:
        """Ask everyone who can be reached whether they handle a message, or are the node that it is for.

        Whoever does answers the one who asked. What was asked a moment ago is not asked again: so no storm arises.
        """
        search, now = (machine.identity, sought(message)), self._loop.time()
        if now < self._searches.get(search, 0.0):
            return
        self._searches[search] = now + SEARCH_PERIOD
        for other in self.machines:
            is_sought = other.identity == message.receiver_node_identity
            if other.is_up and other is not machine and (is_sought or other.handles(message.identifier)):
                self._announce(other, [machine])

    def _give_up(self, machine: Machine, gone: Machine) -> None:
        """Let a machine notice that another is gone, and take back what it could not send."""
        if machine.is_up:
            machine.node.router.forget_node(gone.identity)
            for message, waited in self.network.give_up(machine.identity, gone.identity):
                machine.node.router.take_back(message, gone.identity, waited)

    # -- faults --------------------------------------------------------------------------------------------------------

    async def _start(self, machine: Machine) -> None:
        await machine.start()
        self.note(f"{machine.name} up")
        self._announce(machine)

    async def _bad_times(self) -> None:
        faults = (
            self._change_weather,
            self._crash,
            self._restart_in_order,
            self._cut,
            self._jump,
            self._swap_actor,
            self._forget_someone,
            self._spread_rumour,
        )
        while self._loop.time() < BUSY_SECONDS:
            await asyncio.sleep(self._faults.expovariate(3))
            fault = self._faults.choice(faults)
            self.faults[fault.__name__.strip("_")] += 1
            self.note(fault.__name__)
            await fault(self._faults.choice(self.machines))

    async def _change_weather(self, _: Machine) -> None:
        random = self._faults
        self.network.weather = Weather(
            drop=random.choice((0.0, 0.1, 0.5)),
            duplicate=random.choice((0.0, 0.1, 0.5)),
            latency=random.choice((0.0, 0.001, 0.1)),
            jitter=random.choice((0.0, 0.01, 1.0)),
        )

    async def _crash(self, machine: Machine) -> None:
        await machine.crash()
        self._noticed_by_others(machine)
        await asyncio.sleep(self._faults.choice((0.0, 0.3, 2.0)))
        await self._start(machine)

    async def _restart_in_order(self, machine: Machine) -> None:
        await machine.shut_down()
        self._noticed_by_others(machine)
        await self._start(machine)

    def _noticed_by_others(self, machine: Machine) -> None:
        for other in self.machines:
            if other is not machine:
                self._loop.call_later(self._faults.choice((0.0, 0.5)), self._give_up, other, machine)

    async def _cut(self, machine: Machine) -> None:
        other = self._faults.choice(self.machines)
        if other is machine:
            return
        self.network.cut(machine.identity, other.identity)
        await asyncio.sleep(self._faults.choice((0.1, 1.0)))
        if self._faults.random() < 0.5:
            self._give_up(machine, other)
            self._give_up(other, machine)
        self.network.mend()
        self._announce(machine)
        self._announce(other)

    async def _jump(self, machine: Machine) -> None:
        machine.jump(self._faults.choice((0.01, 1.0, 60.0)))

    async def _swap_actor(self, machine: Machine) -> None:
        """Remove an actor, and sometimes give it back."""
        if not machine.node.actors:
            return
        actor = self._faults.choice(machine.node.actors)
        routes = [route for route in machine.node.router.advertised() if route.receiver == actor.identity]
        self.watch.removed(actor.identity)
        await machine.node.remove(actor, self._faults.choice((0.0, 0.3)))
        for other in self.machines:
            if other is not machine:
                self._later(functools.partial(self._unlearn, other, machine, routes))
        if self._faults.random() < 0.7:
            await asyncio.sleep(self._faults.choice((0.0, 0.5)))
            self.watch.added(actor.identity)
            machine.node.add(actor)
            self._announce(machine)

    def _unlearn(self, other: Machine, machine: Machine, routes: list[Route]) -> None:
        if other.is_up:
            for route in routes:
                other.node.router.forget(machine.identity, route.receiver, route.identifier)

    async def _forget_someone(self, machine: Machine) -> None:
        """Let a machine believe that another is gone, which is not."""
        self._give_up(machine, self._faults.choice([one for one in self.machines if one is not machine] or [machine]))

    async def _spread_rumour(self, machine: Machine) -> None:
        """Let a machine believe that another handles what it does not: its messages wander."""
        other = self._faults.choice(self.machines)
        if machine.is_up and other is not machine:
            kind = payload_type(self._faults.choice((Ask, Start, Middle, Note, News, Poke))).identifier
            machine.node.router.learn(other.identity, other.node.uri, b"\x01rumour", kind)

    async def _make_peace(self) -> None:
        self._faults_over = True
        self.network.weather = Weather()
        self.network.mend()
        for machine in self.machines:
            if not machine.is_up:
                await self._start(machine)


def simulate(seed: int, trace: Callable[[str], None] | None = None) -> Report:
    """Live through the world of a seed. Raises `Violation` when something happened that must not."""
    loop = VirtualLoop()
    with _quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(World(seed, loop, trace).run())
        finally:
            loop.check_after_every_step(None)


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keep the nodes from logging what the simulation does to them."""
    log = logging.getLogger("hopline")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
