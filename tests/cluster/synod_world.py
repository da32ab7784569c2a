"""A synod in virtual time: members with wandering clocks over a bad network, everything by seed.

A clock shows the true time and an offset; any two are at most `clock_drift` apart, and each goes its own way in
between, some of them in steps. After every event it is checked that at most one member believes that it leads.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random

from hopline.cluster.election.lease import ConsensusMessage, Lease, LeaseSettings, in_ticks
from hopline.cluster.election.lease_keeper import LeaseKeeper

EPOCH = 638_000_000_000_000_000  # some day of 2022, in ticks
SECOND = in_ticks(1)
SETTINGS = LeaseSettings()


class TwoLeadersError(AssertionError):
    """What must never be."""


class Machine:
    """Where a member runs: its clock survives its restarts."""

    def __init__(self, number: int, world: World) -> None:
        self.uri = f"tcp://10.0.0.{number + 1}:7001"
        self.keeper: LeaseKeeper | None = None
        self.lives = 0
        self._world = world
        random = world.random
        self._reach = in_ticks(SETTINGS.clock_drift) // 2
        self._kind = random.choice(("ahead", "behind", "waves", "steps"))
        self._period = random.uniform(0.8, 12.0) * SECOND
        self._phase = random.random()

    def clock(self) -> int:
        cycles = self._world.time / self._period + self._phase
        offset = {
            "ahead": 1.0,
            "behind": -1.0,
            "waves": math.sin(2 * math.pi * cycles),
            "steps": 1.0 if int(cycles) % 2 else -1.0,
        }[self._kind]
        return EPOCH + self._world.time + int(offset * self._reach)

    def leads(self) -> bool:
        return self.keeper is not None and self.keeper.is_leader(self.clock())


class World:
    """The machines, the network between them, and what goes wrong."""

    def __init__(self, seed: int, size: int, settings: LeaseSettings = SETTINGS) -> None:
        self.random = Random(seed)
        self.time = 0  # true time, in ticks
        self.settings = settings
        self.seen: Counter[str] = Counter()
        self.history: list[str] = []
        self.machines = [Machine(number, self) for number in range(size)]
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._cut: set[tuple[Machine, Machine]] = set()
        self._leader: tuple[Machine, int] | None = None
        self.calm()
        for machine in self.machines:
            self.start(machine)

    # -- the network ------------------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Make the network good."""
        self._loss, self._copies, self._delay, self._tail, self._stall = 0.0, 0.0, 0.005, 0.0, 0.0
        self._cut.clear()

    def publish(self, sender: Machine, messages: list[ConsensusMessage]) -> None:
        random = self.random
        for message in messages:
            self.seen[type(message).__name__] += 1
            for receiver in self.machines:
                if (sender, receiver) in self._cut or random.random() < self._loss:
                    self.seen["lost"] += 1
                    continue
                for _ in range(1 + (random.random() < self._copies)):
                    delay = random.random() * self._delay
                    if random.random() < self._tail:
                        delay += random.random() * 5  # later than any round, and than most leases
                    self.after(delay, partial(self._deliver, receiver, message))

    def _deliver(self, receiver: Machine, message: ConsensusMessage) -> None:
        if receiver.keeper is not None:
            self.publish(receiver, receiver.keeper.receive(message, receiver.clock()))
            self._tick_later(receiver)

    # -- time -------------------------------------------------------------------------------------------------------

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.time + in_ticks(seconds), next(self._order), act))

    def run(self, seconds: float) -> None:
        """Live for a while, and look after each event whether what must hold holds."""
        end = self.time + in_ticks(seconds)
        while self._events and self._events[0][0] <= end:
            self.time, _, act = heapq.heappop(self._events)
            act()
            self._check()
        self.time = end

    def _check(self) -> None:
        leaders = [machine for machine in self.machines if machine.leads()]
        if len(leaders) > 1:
            raise TwoLeadersError(f"{self.stamp()} {', '.join(leader.uri for leader in leaders)}")
        if leaders and self._leader != (leaders[0], leaders[0].lives):
            self._leader = (leaders[0], leaders[0].lives)
            self.seen["leaders"] += 1
            self.note(f"{leaders[0].uri} leads")

    def _tick_later(self, machine: Machine) -> None:
        """Tick when the keeper wants it, by its own clock, and a bit later than that, or much later."""
        keeper = machine.keeper
        if keeper is None:
            return
        wait = max(0.001, (keeper.next_tick - machine.clock()) / SECOND + self.random.random() * 0.002)
        if self.random.random() < self._stall:
            wait += self.random.random() * 2  # the process is busy with something else
        life = machine.lives

        def tick() -> None:
            if machine.lives == life and machine.keeper is keeper:
                if machine.clock() >= keeper.next_tick:
                    self.publish(machine, keeper.tick(machine.clock()))
                    self._tick_later(machine)
                elif keeper.next_tick - machine.clock() < in_ticks(0.2):
                    self._tick_later(machine)

        self.after(wait, tick)

    # -- faults -----------------------------------------------------------------------------------------------------

    def start(self, machine: Machine) -> None:
        machine.lives += 1
        me = f"{machine.uri}#{machine.lives}".encode()
        uris = [other.uri for other in self.machines]
        machine.keeper = LeaseKeeper(me, machine.uri, uris, me, self.settings, self.random, machine.clock())
        self.note(f"{machine.uri} starts")
        self._tick_later(machine)

    def crash(self, machine: Machine) -> None:
        machine.keeper = None
        self.note(f"{machine.uri} crashes")

    def restart(self, machine: Machine, seconds: float) -> None:
        self.crash(machine)
        life = machine.lives
        self.after(seconds, lambda: self.start(machine) if machine.lives == life else None)

    def cut(self, senders: list[Machine], receivers: list[Machine]) -> None:
        self._cut |= {(sender, receiver) for sender in senders for receiver in receivers if sender is not receiver}

    def suffer(self, seconds: float) -> None:
        """Let one thing after the other go wrong."""
        rate = self.random.choice((0.3, 0.6, 1.0))  # faults a second
        end = self.time + in_ticks(seconds)
        while self.time < end:
            self.run(self.random.expovariate(rate))
            fault = self.random.choice(
                (self._weather, self._restart_some, self._partition, self._deafen, self._strike, self.calm)
            )
            self.seen[fault.__name__] += 1
            self.note(fault.__name__)
            fault()

    def heal(self) -> None:
        self.calm()
        for machine in self.machines:
            if machine.keeper is None:
                self.start(machine)

    def _weather(self) -> None:
        self._loss = self.random.choice((0.0, 0.05, 0.3))
        self._copies = self.random.choice((0.0, 0.3))
        self._delay = self.random.choice((0.005, 0.05, 0.25))
        self._tail = self.random.choice((0.0, 0.1))
        self._stall = self.random.choice((0.0, 0.2))

    def _restart_some(self) -> None:
        for machine in self.random.sample(self.machines, self.random.choice((1, 1, 1, 2))):
            if machine.keeper is not None:
                self.restart(machine, self.random.choice((0.0, 0.1, 0.5, 4.0)))

    def _partition(self) -> None:
        side = self.random.sample(self.machines, self.random.randint(1, len(self.machines) - 1))
        other = [machine for machine in self.machines if machine not in side]
        self._cut.clear()
        self.cut(side, other)
        self.cut(other, side)

    def _deafen(self) -> None:
        """Let some hear nobody, who are still heard."""
        self.cut(self.machines, self.random.sample(self.machines, 1))

    def _strike(self) -> None:
        """Cut the leader off, and let one of those who may have voted for it forget that."""
        leader = self.leader()
        if leader is not None:
            self.calm()
            others = [machine for machine in self.machines if machine is not leader]
            self.cut([leader], others)
            self.cut(others, [leader])
            self.restart(self.random.choice(others), self.random.choice((0.0, 0.2)))

    # -- what is seen -----------------------------------------------------------------------------------------------

    def leader(self) -> Machine | None:
        return next((machine for machine in self.machines if machine.leads()), None)

    def known(self) -> set[Lease | None]:
        return {machine.keeper.lease(machine.clock()) for machine in self.machines if machine.keeper is not None}

    def stamp(self) -> str:
        return f"{self.time / SECOND:9.4f}"

    def note(self, text: str) -> None:
        self.history.append(f"{self.stamp()} {text}")


def live_through(seed: int, seconds: float = 30.0, settings: LeaseSettings = SETTINGS) -> World:
    """Live through one history; a failing seed replays it. Every other synod has five members."""
    world = World(seed, 3 if seed % 2 else 5, settings)
    try:
        world.run(world.random.choice((0.5, 6.0)))  # before any of them votes, or with a leader
        world.suffer(seconds)
        world.heal()
        world.run(settings.mute_time + settings.max_lease + settings.clock_drift + 5)
        leader = world.leader()
        assert leader is not None, "nobody leads a healthy synod"
        life = leader.lives
        for _ in range(20):  # and it stays so
            world.run(0.5)
            assert world.leader() is leader, "a healthy leader was deposed"
            assert leader.lives == life
            assert {lease.identity for lease in world.known() if lease} == {leader.keeper.me if leader.keeper else b""}
    except AssertionError as error:
        error.add_note(f"seed {seed}:\n" + "\n".join(world.history[-30:]))
        raise
    return world
