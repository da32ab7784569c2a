"""Following the rendezvous server that leads.

Theory of operation. Of several rendezvous servers one leads, and only the leader relays messages. A node is connected
to one server at a time, which is in one of three states for it:

* **Probed.** The node has just connected. It sends pings, at growing intervals, until something arrives that only a
  leader publishes. If nothing does within `probe_timeout`, it connects to the next server of its list. With a single
  server it keeps probing.
* **Joined.** The server leads. The node stays as long as heartbeats arrive; after `rendezvous_silence` without one it
  connects to the next server.
* **Disconnected.** The connection broke, in either state. The transport tries to restore it; if nothing of the leader
  arrives within `rendezvous_reconnect`, the node connects to the next server.

A server that does not lead publishes the address of the leader. It is believed only if that address is in the node's
own list: the message is not signed, and must not be able to send a node elsewhere. Naming the server that is followed
already changes nothing, because servers repeat it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.cluster.settings import ClusterSettings
from hopline.message import ArgumentError, get_logger

log = get_logger("hopline.cluster")

_LONGEST_PROBE_INTERVAL = 1.0


class RendezvousPort(Protocol):
    """The connection to one rendezvous server at a time."""

    def follow(self, server: RendezvousAddress) -> None:
        """Connect to a server, and disconnect from the previous one."""
        ...

    def ping(self) -> None:
        """Send a ping to the server. A leader answers it by publishing a pong."""
        ...


class RendezvousFollower:
    """Chooses the server to follow. Call `start` once before anything else.

    Args:
        servers: The servers, in the order in which they are tried.
        settings: Times.
        rendezvous: The connection to the server that is followed.
        resolve: Returns a URI with its host name resolved.
        on_joined: Called whenever a server is found to lead, with the seconds since any server was last heard.

    Raises:
        ArgumentError: There is no server, or one is listed twice.
    """

    def __init__(
        self,
        servers: Sequence[RendezvousAddress],
        settings: ClusterSettings,
        rendezvous: RendezvousPort,
        *,
        resolve: Callable[[str], str],
        on_joined: Callable[[float], None],
    ) -> None:
        if not servers or len(set(servers)) < len(servers):
            raise ArgumentError("rendezvous", "at least one server, and none of them twice", list(servers))
        self._servers = list(servers)
        self._settings = settings
        self._rendezvous = rendezvous
        self._resolve = resolve
        self._on_joined = on_joined
        self.is_joined = False
        self.changes = 0
        self._index = 0
        self._is_loss_logged = False  # since it last joined
        self._followed_at = 0.0
        self._heartbeat_at = 0.0
        self._heard_at = -math.inf  # any server that led
        self._disconnected_at: float | None = None
        self._probe_interval = settings.probe_interval
        self._next_probe = 0.0

    def start(self, now: float) -> None:
        """Connect to the first server."""
        self._follow(0, now)

    @property
    def server(self) -> RendezvousAddress:
        """The server that is followed."""
        return self._servers[self._index]

    def _follow(self, index: int, now: float) -> None:
        self._index = index
        self.is_joined = False
        self._followed_at = now
        self._heartbeat_at = now
        self._disconnected_at = None
        self._probe_interval = self._settings.probe_interval
        self._next_probe = now
        self._rendezvous.follow(self.server)

    def _follow_next(self, now: float, reason: str) -> None:
        self.changes += 1
        index = (self._index + 1) % len(self._servers)
        # A warning for each loss, but not for each server that is tried while none answers.
        level = logging.DEBUG if self._is_loss_logged else logging.WARNING
        self._is_loss_logged = True
        log.log(level, "the rendezvous server %s %s, trying %s", self.server, reason, self._servers[index])
        self._follow(index, now)

    # -- events --------------------------------------------------------------------------------------------------------

    def on_leader_message(self, now: float) -> None:
        """Process the arrival of a message that only a leader publishes."""
        self._disconnected_at = None
        silence = now - self._heard_at
        self._heard_at = now
        if not self.is_joined:
            self.is_joined = True
            self._is_loss_logged = False
            self._heartbeat_at = now
            log.info("following the rendezvous server %s", self.server)
            self._on_joined(silence)

    def on_heartbeat(self, now: float) -> None:
        """Process a heartbeat of the leader."""
        self._heartbeat_at = now
        self.on_leader_message(now)

    def on_not_leader(self, broadcast_uri: str, unicast_uri: str, now: float) -> None:
        """Follow the leader that a server names, if it is in the list."""
        for index, server in enumerate(self._servers):
            if self._is_at(server.broadcast_uri, broadcast_uri) and self._is_at(server.unicast_uri, unicast_uri):
                if index != self._index:
                    self.changes += 1
                    self._follow(index, now)
                return
        log.warning("the rendezvous server %s names a leader that is not among node.rendezvous; ignored", self.server)

    def _is_at(self, configured_uri: str, named_uri: str) -> bool:
        return named_uri in (configured_uri, self._resolve(configured_uri))

    def on_disconnected(self, now: float) -> None:
        """Process the loss of the connection to the server."""
        if self._disconnected_at is None:
            self._disconnected_at = now

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Send another ping, or go on to the next server, when that is due."""
        reason = self._reason_to_leave(now)
        if reason is not None:
            self._follow_next(now, reason)
        if not self.is_joined and now >= self._next_probe:
            self._next_probe = now + self._probe_interval
            self._probe_interval = min(2 * self._probe_interval, _LONGEST_PROBE_INTERVAL)
            self._rendezvous.ping()

    def _reason_to_leave(self, now: float) -> str | None:
        settings = self._settings
        if self._disconnected_at is not None and now - self._disconnected_at > settings.rendezvous_reconnect:
            return "is gone"
        if self.is_joined:
            return "is silent" if now - self._heartbeat_at > settings.rendezvous_silence else None
        has_alternative = len(self._servers) > 1
        if has_alternative and now - self._followed_at > settings.probe_timeout:
            return "does not answer"
        return None
