"""The faults of a run, chosen by its seed before it begins.

Faults come one at a time, `period` seconds apart, and each is over before the next one begins: what the verdict can say
about a loss depends on knowing the one fault that may have caused it. They come in rounds. A round has each kind of
fault for each role once, in an order that depends on the seed alone.

Whether a process grows can only be seen while it lives. So some roles are spared: they are paused at any time, and
killed only in the first part of the run, or never.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

SHORTEST_PAUSE = 2.0  # seconds
LONGEST_PAUSE = 12.0  # beyond two heartbeats of a node: the others believe that it is gone
SPARED_AFTER = 1 / 3  # of the run: spared roles are not killed any more
_LONGEST_SHARE = 0.6  # of the period: the rest is for what follows a pause


class FaultKind(StrEnum):
    """What happens to a process."""

    KILL = "kill"  # kill -9 of the process and of those that it has started, and a restart at once
    KILL_LEADER = "kill leader"  # kill -9 of the process alone, and a restart while its children may still run
    PAUSE = "pause"  # SIGSTOP, and SIGCONT some seconds later


class Fault(msgspec.Struct, frozen=True):
    """One fault."""

    at: float  # seconds since the load began
    kind: FaultKind
    role: str
    seconds: float = 0.0  # of a pause

    def __str__(self) -> str:
        text = f"{self.kind} {self.role}"
        return f"{text} {self.seconds:.1f} s" if self.seconds else text


def plan_faults(
    seed: int,
    *,
    minutes: float,
    period: float,
    roles: Sequence[str],
    with_children: Sequence[str] = (),
    spared: Sequence[str] = (),
    never_killed: Sequence[str] = (),
) -> tuple[Fault, ...]:
    """Return the faults of a run: the same ones for the same arguments.

    Args:
        seed: The seed of the run.
        minutes: How long the load lasts. The last fault comes a period before its end at the latest.
        period: Seconds between two faults; 0 for no faults.
        roles: The processes that faults may befall.
        with_children: Those of them that start processes of their own, which can be killed alone.
        spared: Those that are killed only in the first part of the run.
        never_killed: Those that are only paused.
    """
    if not period:
        return ()
    chance = random.Random(seed)
    duration = 60 * minutes
    longest_pause = max(SHORTEST_PAUSE, min(LONGEST_PAUSE, _LONGEST_SHARE * period))
    choices = _rounds(chance, roles, with_children)
    faults = []
    count = int(duration / period) - 1
    for number in range(1, count + 1):
        safe = {*never_killed, *(spared if number * period > SPARED_AFTER * duration else ())}
        kind, role = next(choice for choice in choices if choice[0] is FaultKind.PAUSE or choice[1] not in safe)
        seconds = round(chance.uniform(SHORTEST_PAUSE, longest_pause), 1) if kind is FaultKind.PAUSE else 0.0
        faults.append(Fault(number * period, kind, role, seconds))
    return tuple(faults)


def _rounds(
    chance: random.Random, roles: Sequence[str], with_children: Sequence[str]
) -> Iterator[tuple[FaultKind, str]]:
    choices = [(kind, role) for role in roles for kind in (FaultKind.KILL, FaultKind.PAUSE)]
    choices += [(FaultKind.KILL_LEADER, role) for role in roles if role in with_children]
    while True:
        yield from chance.sample(choices, len(choices))
