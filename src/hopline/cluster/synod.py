"""The health of a synod: who of its members is heard, and whom to connect to again. It has no part in any quorum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from hopline.cluster.lease import LONGEST, in_ticks
from hopline.cluster.poll import Members, plain
from hopline.message import LocalError


class SynodSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the members of a synod look after each other. Times are in seconds."""

    heartbeat_interval: float = 5.0  # between two heartbeats of a member
    missing_heartbeats: int = 3  # how many may be missing before its connection is made anew

    def __post_init__(self) -> None:
        for name, most in (("heartbeat_interval", LONGEST), ("missing_heartbeats", 1_000)):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0 < value <= most):
                raise LocalError(f"synod.{name}", f"more than 0 and at most {most:g}", value)


class SynodHeartbeat(msgspec.Struct, frozen=True):
    """A member says that it is there; to be published to all."""

    node_uri: str


class Reconnect(msgspec.Struct, frozen=True):
    """A member has long been silent: resolve its address again, disconnect and connect, and `move` it if it moved."""

    uri: str


SynodStep: TypeAlias = SynodHeartbeat | Reconnect


class SynodHealth:
    """Hears the heartbeats of the members and sends this one's. A synod of one has nobody to tell.

    `now` is in ticks of 100 ns of any clock that does not go back. Call `tick` when `next_tick` has come.
    """

    def __init__(self, uri: str, members: Sequence[str], settings: SynodSettings, now: int) -> None:
        self.from_strangers = 0  # heartbeats of nobody's: a member may be configured under another address there
        self._uri = uri
        self._members = Members(uri, members)
        self._interval = in_ticks(settings.heartbeat_interval)
        self._patience = in_ticks(settings.heartbeat_interval * settings.missing_heartbeats)
        others = [plain(member) for member in members if plain(member) != plain(uri)]
        self._heard = dict.fromkeys(others, now)  # each gets the time to say something
        self._reconnected = dict.fromkeys(others, now)
        self._next_heartbeat = now

    def hear(self, heartbeat: SynodHeartbeat, now: int) -> None:
        """Take in a heartbeat; this member's own means nothing."""
        name = plain(heartbeat.node_uri)
        if name in self._heard:
            self._heard[name] = now
        elif name != plain(self._uri):
            self.from_strangers += 1

    def healthy(self, now: int) -> list[str]:
        """Name the members that are heard, this one included."""
        return [uri for uri in self._members.uris if plain(uri) not in self._heard or not self._is_silent(uri, now)]

    @property
    def next_tick(self) -> int | None:
        """When `tick` has something to do; None is never."""
        return min((self._next_heartbeat, *map(self._gives_up_at, self._heard))) if self._heard else None

    def tick(self, now: int) -> list[SynodStep]:
        """Say that this member is there, and find those to connect to again."""
        steps: list[SynodStep] = []
        if self._heard and now >= self._next_heartbeat:
            self._next_heartbeat = now + self._interval
            steps.append(SynodHeartbeat(self._uri))
        for uri in self._members.uris:
            name = plain(uri)
            if name in self._heard and now >= self._gives_up_at(name):
                self._reconnected[name] = now
                steps.append(Reconnect(uri))
        return steps

    def move(self, old: str, new: str) -> None:
        """Follow a member to another address; `LeaseKeeper.move_member` must be told too."""
        if plain(old) == plain(self._uri):
            raise LocalError("synod.members", "another member", old)
        self._members.move(old, new)
        for times in (self._heard, self._reconnected):
            times[plain(new)] = times.pop(plain(old))

    def _is_silent(self, uri: str, now: int) -> bool:
        return now - self._heard[plain(uri)] >= self._patience

    def _gives_up_at(self, name: str) -> int:
        return max(self._heard[name], self._reconnected[name]) + self._patience
