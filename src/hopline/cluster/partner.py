"""A partner network: which of its rendezvous servers to listen to, and what of it concerns us."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from hopline.cluster.lease import LONGEST, in_ticks
from hopline.cluster.poll import plain
from hopline.cluster.service import HEARTBEAT, NOT_LEADER, read
from hopline.cluster.service_pb2 import RendezvousNotLeader
from hopline.message import LocalError, Message, PayloadError

ANY_DOMAIN = "*"


class Listen(msgspec.Struct, frozen=True):
    """Leave the partner's server that is listened to now, and listen to this one: `uri` is its partner broadcast."""

    network_id: str
    uri: str


class Partner:
    """Follows the leader of one partner network, by its heartbeats and its word.

    `cluster` are the partner broadcast addresses of its servers; the first is listened to first. A leader that is not
    among them is not followed: anybody could be named. `now` is in ticks of 100 ns of any clock that does not go back.
    """

    def __init__(
        self, network_id: str, cluster: Sequence[str], allowed_domains: Collection[str], silence: float, now: int
    ) -> None:
        if not cluster or len({plain(uri) for uri in cluster}) != len(cluster):
            raise LocalError(f"partners[{network_id}].cluster", "one or more different URIs", list(cluster))
        if not 0 < silence <= LONGEST:
            raise LocalError(f"partners[{network_id}].silence", f"more than 0 and at most {LONGEST:g} seconds", silence)
        self.network_id = network_id
        self.unknown_leaders = 0  # how often it named a leader that is not configured here
        self._cluster = list(cluster)
        self._allowed = frozenset(allowed_domains)
        self._silence = in_ticks(silence)
        self._silent_at = now + self._silence

    @property
    def uri(self) -> str:
        """Where to listen now."""
        return self._cluster[0]

    @property
    def next_tick(self) -> int:
        """When `tick` has something to do."""
        return self._silent_at

    def allows(self, domain: str) -> bool:
        """Tell whether messages of that domain come in from the partner."""
        return ANY_DOMAIN in self._allowed or domain in self._allowed

    def hear(self, message: Message, now: int) -> Listen | None:
        """Take in a heartbeat, or the news that another server leads. `PayloadError` if it is not told which."""
        if message.identifier == HEARTBEAT:
            self._silent_at = now + self._silence
        elif message.identifier == NOT_LEADER:
            return self._follow(message, now)
        return None

    def tick(self, now: int) -> Listen | None:
        """Try the next server when this one has been silent for too long; the same again when it is the only one."""
        if now < self._silent_at:
            return None
        return self._listen(self._cluster[1:] + self._cluster[:1], now)

    def _follow(self, message: Message, now: int) -> Listen | None:
        uri = read(message, RendezvousNotLeader).new_leader.partner_broadcast_uri
        if not uri:
            raise PayloadError(RendezvousNotLeader, "no partner broadcast of the new leader", message.body)
        named = [known for known in self._cluster if plain(known) == plain(uri)]
        if not named:
            self.unknown_leaders += 1
            return None
        if named[0] == self.uri:
            return None
        return self._listen(named + [known for known in self._cluster if known != named[0]], now)

    def _listen(self, cluster: list[str], now: int) -> Listen:
        self._cluster = cluster
        self._silent_at = now + self._silence
        return Listen(self.network_id, self.uri)
