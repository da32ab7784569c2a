"""The health of a synod: which members are heard, and to which to connect again.

The members exchange heartbeats over the same sockets as their votes. They have no part in any quorum: a member that is
silent may still vote. Heartbeats only detect connections that have died without an error, for example because a member
has moved to another address behind its host name. After `missing_heartbeats` intervals without one, the member is
resolved, disconnected and connected again, and again after as many more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from hopline.checks import Range, require_numbers
from hopline.cluster.election.lease import LONGEST, in_ticks
from hopline.cluster.election.members import Members, normalized
from hopline.message import ArgumentError


class SynodSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the members of a synod watch each other. Times are in seconds."""

    heartbeat_interval: float = 5.0  # time between two heartbeats of a member
    missing_heartbeats: int = 3  # heartbeats that may be missing before the member is connected to again

    def __post_init__(self) -> None:
        require_numbers(self, _ACCEPTED, "synod.")


_ACCEPTED = {
    "heartbeat_interval": Range(0, LONGEST, excludes_least=True),
    "missing_heartbeats": Range(0, 1_000, excludes_least=True),
}


class SynodHeartbeat(msgspec.Struct, frozen=True):
    """A heartbeat of a member, to be published to all."""

    node_uri: str


class Reconnect(msgspec.Struct, frozen=True):
    """An instruction: resolve a silent member's address, disconnect and connect; call `move` if it has changed."""

    uri: str


SynodStep: TypeAlias = SynodHeartbeat | Reconnect


class SynodHealth:
    """Receives the heartbeats of the other members and sends this one's. A synod of one has nothing to do.

    Times are in ticks of 100 ns of a clock that does not go back. Call `tick` at `next_tick`.
    """

    def __init__(self, uri: str, members: Sequence[str], settings: SynodSettings, now: int) -> None:
        self.from_strangers = 0  # heartbeats from unknown addresses: a member may be configured differently there
        self._uri = uri
        self._members = Members(uri, members)
        self._interval = in_ticks(settings.heartbeat_interval)
        timeout = settings.heartbeat_interval * settings.missing_heartbeats
        self._timeout = in_ticks(timeout)
        self._name = normalized(uri)
        names = map(normalized, members)
        others = [name for name in names if name != self._name]
        self._heard_at = dict.fromkeys(others, now)  # each gets the full time at first
        self._reconnected_at = dict.fromkeys(others, now)
        self._next_heartbeat = now

    def receive(self, heartbeat: SynodHeartbeat, now: int) -> None:
        """Process a heartbeat; this member's own is ignored."""
        name = normalized(heartbeat.node_uri)
        if name in self._heard_at:
            self._heard_at[name] = now
        elif name != self._name:
            self.from_strangers += 1

    def healthy(self, now: int) -> list[str]:
        """Return the members that are heard, this one included."""
        uris = self._members.uris
        return [uri for uri in uris if not self._is_silent(uri, now)]

    @property
    def next_tick(self) -> int | None:
        """When to call `tick` next; None is never."""
        if not self._heard_at:
            return None
        first_timeout = min(map(self._times_out_at, self._heard_at))
        return min(self._next_heartbeat, first_timeout)

    def tick(self, now: int) -> list[SynodStep]:
        """Return a heartbeat if one is due, and the members to connect to again."""
        steps: list[SynodStep] = []
        if self._heard_at and now >= self._next_heartbeat:
            self._next_heartbeat = now + self._interval
            steps.append(SynodHeartbeat(self._uri))
        for uri in self._members.uris:
            name = normalized(uri)
            if name not in self._heard_at:  # this member itself
                continue
            if now >= self._times_out_at(name):
                self._reconnected_at[name] = now
                steps.append(Reconnect(uri))
        return steps

    def move(self, old: str, new: str) -> None:
        """Replace the address of another member. `LeaseKeeper.move_member` must be called too.

        Raises:
            ArgumentError: `old` is this member or none, or `new` is the address of another one.
        """
        old_name = normalized(old)
        new_name = normalized(new)
        if old_name == self._name:
            raise ArgumentError("synod.members", "another member", old)
        self._members.move(old, new)
        self._heard_at[new_name] = self._heard_at.pop(old_name)
        self._reconnected_at[new_name] = self._reconnected_at.pop(old_name)

    def _is_silent(self, uri: str, now: int) -> bool:
        name = normalized(uri)
        heard_at = self._heard_at.get(name)
        if heard_at is None:
            return False
        return now - heard_at >= self._timeout

    def _times_out_at(self, name: str) -> int:
        heard_at = self._heard_at[name]
        reconnected_at = self._reconnected_at[name]
        return max(heard_at, reconnected_at) + self._timeout
