"""A partner network: which of its rendezvous servers to subscribe to, and which of its messages to relay."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from hopline.cluster.election.lease import LONGEST, in_ticks
from hopline.cluster.election.members import normalized
from hopline.cluster.messages.service import HEARTBEAT, NOT_LEADER, read
from hopline.cluster.messages.service_pb2 import RendezvousNotLeader
from hopline.message import ArgumentError, Message, PayloadError

ANY_DOMAIN = "*"


class Listen(msgspec.Struct, frozen=True):
    """An instruction: subscribe to this server of a partner network in place of the current one."""

    network_id: str
    uri: str  # where the server publishes for partners


class Partner:
    """Follows the leader of one partner network, by its heartbeats and by what other servers publish about it.

    Only configured servers are followed: the messages that name a leader are not signed. Times are in ticks of 100 ns
    of a clock that does not go back.

    Args:
        network_id: The name of the partner network here.
        cluster: The partner broadcast addresses of its servers, in the order in which they are tried.
        allowed_domains: The domains whose messages are relayed; `*` is all.
        silence: Seconds without a heartbeat before the next server is tried.
        now: The time.

    Raises:
        ArgumentError: `cluster` is empty or has duplicates, or `silence` is out of range.
    """

    def __init__(
        self, network_id: str, cluster: Sequence[str], allowed_domains: Collection[str], silence: float, now: int
    ) -> None:
        distinct = {normalized(uri) for uri in cluster}
        if not cluster or len(distinct) != len(cluster):
            raise ArgumentError(f"partners[{network_id}].cluster", "one or more different URIs", list(cluster))
        if not 0 < silence <= LONGEST:
            raise ArgumentError(
                f"partners[{network_id}].silence", f"more than 0 and at most {LONGEST:g} seconds", silence
            )
        self.network_id = network_id
        self.unknown_leaders = 0  # how often a leader was named that is not configured here
        self._cluster = list(cluster)
        self._allowed_domains = frozenset(allowed_domains)
        self._silence = in_ticks(silence)
        self._silent_at = now + self._silence

    @property
    def uri(self) -> str:
        """The address to subscribe to."""
        return self._cluster[0]

    @property
    def next_tick(self) -> int:
        """When to call `tick` next."""
        return self._silent_at

    def allows(self, domain: str) -> bool:
        """Return whether messages of a domain are relayed."""
        return ANY_DOMAIN in self._allowed_domains or domain in self._allowed_domains

    def receive(self, message: Message, now: int) -> Listen | None:
        """Process a message of the partner's servers about leadership.

        Raises:
            PayloadError: The message says that another server leads, but not where it publishes for partners.
        """
        if message.identifier == HEARTBEAT:
            self._silent_at = now + self._silence
        elif message.identifier == NOT_LEADER:
            return self._follow(message, now)
        return None

    def tick(self, now: int) -> Listen | None:
        """Try the next server if the current one was silent for too long; a single one is subscribed to again."""
        if now < self._silent_at:
            return None
        rotated = self._cluster[1:] + self._cluster[:1]
        return self._listen(rotated, now)

    def _follow(self, message: Message, now: int) -> Listen | None:
        uri = read(message, RendezvousNotLeader).new_leader.partner_broadcast_uri
        if not uri:
            raise PayloadError(RendezvousNotLeader, "no partner broadcast of the new leader", message.body)
        leader = next((server for server in self._cluster if normalized(server) == normalized(uri)), None)
        if leader is None:
            self.unknown_leaders += 1
            return None
        if leader == self.uri:
            return None
        others = [server for server in self._cluster if server != leader]
        return self._listen([leader, *others], now)

    def _listen(self, cluster: list[str], now: int) -> Listen:
        self._cluster = cluster
        self._silent_at = now + self._silence
        return Listen(self.network_id, self.uri)
