"""Which rendezvous server a node follows: the one that leads, as far as it can be heard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from hopline.cluster.rendezvous import RendezvousAddress
from hopline.cluster.settings import ClusterSettings
from hopline.message import LocalError, get_logger

log = get_logger("hopline.cluster")

_LONGEST_PROBE_INTERVAL = 1.0


class Rendezvous(Protocol):
    """The connection to one server at a time."""

    def follow(self, server: RendezvousAddress) -> None:
        """Connect to a server, and leave the one before."""
        ...

    def ping(self) -> None:
        """Ask the server for a sign of life, which a leader publishes."""
        ...


class Following:
    """Asks a server until it is heard, stays with it while it is, and goes to the next one when it is not.

    A server that does not lead says who does. It is believed only as far as the list of servers goes: nobody can send
    a node elsewhere.
    """

    def __init__(
        self,
        servers: Sequence[RendezvousAddress],
        settings: ClusterSettings,
        rendezvous: Rendezvous,
        *,
        resolve: Callable[[str], str],
        joined: Callable[[], None],
        now: float,
    ) -> None:
        if not servers or len(set(servers)) < len(servers):
            raise LocalError("rendezvous", "at least one server, and none of them twice", list(servers))
        self._servers = list(servers)
        self._lost = False  # since it was last joined
        self._settings = settings
        self._rendezvous = rendezvous
        self._resolve = resolve
        self._tell_joined = joined
        self.is_joined = False
        self.changes = 0
        self._follow(0, now)

    @property
    def server(self) -> RendezvousAddress:
        """The server that is followed now."""
        return self._servers[self._at]

    def _follow(self, index: int, now: float) -> None:
        self._at = index
        self.is_joined = False
        self._heartbeat_at = self._followed_at = now
        self._broke_at: float | None = None
        self._probe_interval = self._settings.probe_interval
        self._next_probe = now
        self._rendezvous.follow(self.server)

    def _next(self, now: float, why: str) -> None:
        self.changes += 1
        following = (self._at + 1) % len(self._servers)
        # Once for each loss, and not again and again while nobody is there.
        level, self._lost = (logging.DEBUG if self._lost else logging.WARNING), True
        log.log(level, "the rendezvous server %s %s, trying %s", self.server, why, self._servers[following])
        self._follow(following, now)

    # -- what is heard -------------------------------------------------------------------------------------------------

    def heard(self, now: float) -> None:
        """Note that something came that only a leader publishes."""
        self._broke_at = None
        if not self.is_joined:
            self.is_joined = True
            self._lost = False
            self._heartbeat_at = now
            log.info("following the rendezvous server %s", self.server)
            self._tell_joined()

    def heartbeat(self, interval: float, now: float) -> bool:
        """Note a leader's sign of life, and tell whether it came late: others may have been missed before it."""
        is_late = self.is_joined and now - self._heartbeat_at > 2 * interval > 0
        self._heartbeat_at = now
        self.heard(now)
        return is_late

    def not_leader(self, broadcast_uri: str, unicast_uri: str, now: float) -> None:
        """Go where a server says the leader is, if that is one of ours."""
        for index, server in enumerate(self._servers):
            if self._is_at(server.broadcast_uri, broadcast_uri) and self._is_at(server.unicast_uri, unicast_uri):
                if index != self._at:
                    self.changes += 1
                    self._follow(index, now)
                return
        log.warning("the rendezvous server %s names a leader that is none of ours", self.server)

    def _is_at(self, ours: str, told: str) -> bool:
        return told in (ours, self._resolve(ours))

    def broke(self, now: float) -> None:
        """Note that the connection to the server broke."""
        if self._broke_at is None:
            self._broke_at = now

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Ask again, or go on to the next server, when it is time to."""
        settings = self._settings
        if self._broke_at is not None and now - self._broke_at > settings.rendezvous_reconnect:
            self._next(now, "is gone")
        elif self.is_joined:
            if now - self._heartbeat_at > settings.rendezvous_silence:
                self._next(now, "is silent")
        elif now - self._followed_at > settings.probe_time and len(self._servers) > 1:
            self._next(now, "does not answer")
        if not self.is_joined and now >= self._next_probe:
            self._next_probe = now + self._probe_interval
            self._probe_interval = min(2 * self._probe_interval, _LONGEST_PROBE_INTERVAL)
            self._rendezvous.ping()
