"""What a rendezvous server does with each message: relay it, hold it, or refuse it.

Theory of operation. A rendezvous server keeps no registry of routes. Every node sends its control messages to the
leader's unicast socket, and the leader publishes them on its broadcast socket to all nodes, the sender included. Which
server leads is decided elsewhere (`hopline.cluster.election`) and handed in with each event, because a lease ends by
itself. What happens depends on three cases:

=========================  ==========================  ============================  ===============================
event                      this server leads           another server leads          no leader is known
=========================  ==========================  ============================  ===============================
route message of a node    publish, also to partners   refuse; publish who leads     hold until there is a leader
ping of a node             publish a pong              refuse; publish who leads     refuse
route message of partner   publish, to nodes only      refuse; publish who leads,    hold; publish to nodes only
                                                       to nodes only
every heartbeat interval   publish a heartbeat         publish who leads             nothing
=========================  ==========================  ============================  ===============================

Invariants:

* Every message that arrives is counted once: as relayed, a ping, about partners' leadership, refused with a reason, or
  still held.
* Only the six kinds of route messages are ever relayed. Whatever only a server may publish (heartbeats, the leader's
  address, a new server list) is refused on the unicast socket: relaying it would let anybody take the network over.
  Signatures are not checked here; the nodes have the keys.
* A partner's message never goes back to partners, so two networks that are each other's partners do not echo.
* A message is relayed in the frames in which it arrived (see `relayed_frames`). Where nodes write several formats,
  copies in the others are published too (see `hopline.cluster.messages.formats`).
* Messages are held rather than dropped without a leader, because an election takes about as long as a lease, and the
  reference's nodes do not repeat what they announce.
* Who leads is published at most once in `not_leader_spacing`, however many messages arrive: everybody receives it. For
  the same reason one pong, at most every `pong_spacing`, answers all pings since the last one: after a failure every
  node pings the new leader, and N pongs to N nodes would be a storm.

The relay has no I/O: each call returns the steps to take. Times are in ticks of 100 ns of a clock that never goes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec

from hopline.checks import Range, require_choice, require_numbers
from hopline.cluster.election.leadership import NOBODY, Leadership
from hopline.cluster.election.lease import LONGEST, in_ticks
from hopline.cluster.messages.formats import SERVICE_FORMATS, FormatsInUse, copies, is_copy
from hopline.cluster.messages.service import (
    CONTROL,
    HEARTBEAT,
    LEADER_MESSAGES,
    NOT_LEADER,
    PING,
    PONG,
    UNREGISTER_UNREACHABLE_NODE,
    service_message,
)
from hopline.cluster.messages.service_pb2 import HeartBeat, RendezvousNotLeader
from hopline.cluster.messages.timespan import to_timespan
from hopline.message import Message, PayloadError, WireFormat
from hopline.rendezvous.held_messages import HeldMessages, Publication
from hopline.rendezvous.partner import Listen, Partner
from hopline.rendezvous.relayed_frames import is_ambiguous, relayed_frames
from hopline.wire import RemoteError, decode, encode

ROUTE_KINDS = CONTROL
"""The only kinds of messages that are ever relayed."""


class Refusal(StrEnum):
    """Why a message was not relayed. The codes are part of the interface: metrics use them."""

    MALFORMED = "malformed"
    AMBIGUOUS = "ambiguous"  # a node that knows only one format might read another message in it
    LEADERS_ONLY = "leaders_only"  # only a rendezvous server may publish it
    EVICTION = "eviction"  # it would have removed a node, unsigned
    UNKNOWN_KIND = "unknown_kind"
    FOREIGN_DOMAIN = "foreign_domain"  # a partner's message of a domain that is not allowed
    NOT_LEADER = "not_leader"  # another server leads, which is published
    NO_LEADER = "no_leader"  # a ping while no leader is known
    NO_ROOM = "no_room"  # no leader is known, and too many messages are held
    TOO_LATE = "too_late"  # no leader was known for as long as it could be held


class RelaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a rendezvous server relays. Times are in seconds."""

    heartbeat_interval: float = 5.0  # time between heartbeats of the leader, or notices of a follower on who leads
    wire_format: WireFormat = WireFormat.V5  # format of the server's own messages, unless all nodes use others
    format_memory: float = 600.0  # time for which a format is used after the last message in it
    held_messages: int = 1_000  # messages that may wait while no leader is known
    held_bytes: int = 16 * 1024 * 1024  # bytes of all messages that wait
    holding_time: float = 10.0  # time for which each may wait; a restarted synod needs a little more than a lease
    not_leader_spacing: float = 0.1  # shortest time between two notices on who leads
    pong_spacing: float = 0.05  # shortest time between two answers to pings; each answers all that came before

    def __post_init__(self) -> None:
        require_numbers(self, _ACCEPTED, "rendezvous.")
        require_choice("rendezvous.wire_format", self.wire_format, SERVICE_FORMATS)


_ACCEPTED = {
    "heartbeat_interval": Range(0.001, LONGEST),
    "format_memory": Range(0, LONGEST),
    "held_messages": Range(0, 2**31),
    "held_bytes": Range(0, 2**40),
    "holding_time": Range(0, LONGEST),
    "not_leader_spacing": Range(0, LONGEST),
    "pong_spacing": Range(0, LONGEST),
}


class RelayStatistics(msgspec.Struct):
    """What became of every message: `received` is the sum of the next four and of what is held."""

    received: int = 0
    relayed: int = 0
    pings: int = 0
    for_listening: int = 0  # partners' heartbeats and notices, which decide which of their servers is followed
    refused: Counter[Refusal] = msgspec.field(default_factory=Counter)
    heartbeats: int = 0  # published
    not_leaders: int = 0  # published


RelayStep: TypeAlias = Publication | Listen


class Relay:
    """Decides for one rendezvous server.

    Call `tick` at `next_tick`, and when the leadership has changed, so that the nodes learn of it at once.
    """

    def __init__(self, settings: RelaySettings, now: int) -> None:
        self.statistics = RelayStatistics()
        self._heartbeat_interval = in_ticks(settings.heartbeat_interval)
        self._notice_spacing = in_ticks(settings.not_leader_spacing)
        self._pong_spacing = in_ticks(settings.pong_spacing)
        self._held = HeldMessages(settings.held_messages, settings.held_bytes, in_ticks(settings.holding_time))
        self._leadership = NOBODY
        self._heartbeat_at = now
        self._noticed_at = now - self._notice_spacing
        self._ponged_at = now - self._pong_spacing
        self._is_pong_pending = False
        self._pending_notice: bool | None = None  # who leads is to be published, and whether to partners too
        self._formats = FormatsInUse(settings.wire_format, in_ticks(settings.format_memory))
        self._ping_formats: set[WireFormat] = set()  # of pings that a pong or a notice has to answer
        heartbeat = HeartBeat(heart_beat_interval=to_timespan(settings.heartbeat_interval))
        self._heartbeat = service_message(HEARTBEAT, heartbeat)

    @property
    def held(self) -> int:
        """The number of messages that wait for a leader."""
        return len(self._held)

    @property
    def next_tick(self) -> int:
        """When to call `tick` next."""
        times = [self._heartbeat_at]
        expiry = self._held.next_expiry
        if expiry is not None:
            times.append(expiry)
        if self._pending_notice is not None:
            times.append(self._noticed_at + self._notice_spacing)
        if self._is_pong_pending:
            times.append(self._ponged_at + self._pong_spacing)
        return min(times)

    @property
    def owes_answer(self) -> bool:
        """Whether a pong, or a notice on who leads, is due at `next_tick`."""
        return self._is_pong_pending or self._pending_notice is not None

    # -- events -----------------------------------------------------------------------------------------------------

    def on_unicast(self, frames: Sequence[bytes], leadership: Leadership, now: int) -> list[RelayStep]:
        """Process a message of a node."""
        steps = self.tick(leadership, now)
        message, own_frames = self._decode(frames)
        if message is None:
            return steps
        kind = message.identifier
        if kind in ROUTE_KINDS:
            self._formats.record(message.wire_format, now)
            steps += self._relay(Publication(own_frames, to_partners=True), message, leadership, now)
        elif kind == PING:
            steps += self._answer_ping(message.wire_format, leadership, now)
        elif kind in LEADER_MESSAGES:
            self._refuse(Refusal.LEADERS_ONLY)
        elif kind == UNREGISTER_UNREACHABLE_NODE:
            self._refuse(Refusal.EVICTION)
        else:
            self._refuse(Refusal.UNKNOWN_KIND)
        return steps

    def on_partner(
        self, frames: Sequence[bytes], partner: Partner, leadership: Leadership, now: int
    ) -> list[RelayStep]:
        """Process a message that a partner network published."""
        steps = self.tick(leadership, now)
        if is_copy(frames):
            return steps
        message, own_frames = self._decode(frames)
        if message is None:
            return steps
        if message.identifier in LEADER_MESSAGES:
            steps += self._follow_partner(message, partner, now)
        elif message.identifier not in ROUTE_KINDS:
            self._refuse(Refusal.UNKNOWN_KIND)
        elif not partner.allows(message.domain):
            self._refuse(Refusal.FOREIGN_DOMAIN)
        else:
            steps += self._relay(Publication(own_frames, to_partners=False), message, leadership, now)
        return steps

    def _follow_partner(self, message: Message, partner: Partner, now: int) -> list[RelayStep]:
        try:
            listen = partner.receive(message, now)
        except PayloadError:
            self._refuse(Refusal.MALFORMED)
            return []
        self.statistics.for_listening += 1
        return [] if listen is None else [listen]

    def tick(self, leadership: Leadership, now: int) -> list[RelayStep]:
        """Publish heartbeats and notices that are due, and release or expire what is held."""
        steps: list[RelayStep] = []
        if leadership != self._leadership:
            self._leadership = leadership
            self._heartbeat_at = now
            self._pending_notice = None
            self._is_pong_pending = False
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + self._heartbeat_interval
            if leadership.leads:
                self.statistics.heartbeats += 1
                steps += self._publish(self._heartbeat, now)
            elif leadership.leader is not None:
                self._pending_notice = True
        steps += self._release_held(leadership, now)
        steps += self._publish_notice(leadership, now)
        steps += self._publish_pong(now)
        return steps

    # -- relaying ---------------------------------------------------------------------------------------------------

    def _decode(self, frames: Sequence[bytes]) -> tuple[Message | None, list[bytes]]:
        """Decode a message, and return it with the frames to relay; None if it is refused."""
        self.statistics.received += 1
        try:
            message = decode(frames)
        except RemoteError:
            self._refuse(Refusal.MALFORMED)
            return None, []
        own_frames = relayed_frames(message, frames)
        if is_ambiguous(message, own_frames):
            self._refuse(Refusal.AMBIGUOUS)
            return None, []
        return message, own_frames

    def _relay(self, publication: Publication, message: Message, leadership: Leadership, now: int) -> list[RelayStep]:
        if leadership.leads:
            self.statistics.relayed += 1
            return [publication, *self._copies(message, message.wire_format, publication.to_partners, now)]
        if leadership.leader is not None:
            return self._redirect(leadership, now, to_partners=publication.to_partners)
        if not self._held.add(publication, message, now):
            self._refuse(Refusal.NO_ROOM)
        return []

    def _release_held(self, leadership: Leadership, now: int) -> list[RelayStep]:
        """Refuse the held messages whose time is over, and relay the others once a leader is known."""
        for _ in self._held.expired(now):
            self._refuse(Refusal.TOO_LATE)
        steps: list[RelayStep] = []
        if leadership != NOBODY:
            for held in self._held.released():
                steps += self._relay(held.publication, held.message, leadership, now)
        return steps

    def _answer_ping(self, wire_format: WireFormat | None, leadership: Leadership, now: int) -> list[RelayStep]:
        """Answer a ping, also in its own format: its sender may not know yet which formats are used here."""
        if not leadership.leads and leadership.leader is None:
            self._refuse(Refusal.NO_LEADER)
            return []
        if wire_format is not None:
            self._ping_formats.add(wire_format)
        if not leadership.leads:
            return self._redirect(leadership, now, to_partners=True)
        self.statistics.pings += 1
        self._is_pong_pending = True
        return self._publish_pong(now)

    def _publish_pong(self, now: int) -> list[RelayStep]:
        """Answer the pings since the last pong, unless that was published a moment ago."""
        if not self._is_pong_pending or now < self._ponged_at + self._pong_spacing:
            return []
        self._is_pong_pending = False
        self._ponged_at = now
        return self._publish(service_message(PONG, None), now, also_in=self._take_ping_formats())

    def _take_ping_formats(self) -> set[WireFormat]:
        formats = self._ping_formats
        self._ping_formats = set()
        return formats

    def _refuse(self, refusal: Refusal) -> None:
        self.statistics.refused[refusal] += 1

    # -- who leads --------------------------------------------------------------------------------------------------

    def _redirect(self, leadership: Leadership, now: int, *, to_partners: bool) -> list[RelayStep]:
        """Refuse a message because another server leads, and publish which."""
        self._refuse(Refusal.NOT_LEADER)
        self._pending_notice = bool(self._pending_notice) or to_partners
        return self._publish_notice(leadership, now)

    def _publish_notice(self, leadership: Leadership, now: int) -> list[RelayStep]:
        """Publish who leads if that is pending, unless it was published a moment ago."""
        to_partners, leader = self._pending_notice, leadership.leader
        if to_partners is None or leader is None or now < self._noticed_at + self._notice_spacing:
            return []
        self._pending_notice = None
        self._noticed_at = now
        self.statistics.not_leaders += 1
        notice = service_message(NOT_LEADER, RendezvousNotLeader(new_leader=leader.content()))
        return self._publish(notice, now, to_partners=to_partners, also_in=self._take_ping_formats())

    # -- formats ----------------------------------------------------------------------------------------------------

    def _publish(
        self, message: Message, now: int, *, to_partners: bool = True, also_in: Iterable[WireFormat] = ()
    ) -> list[RelayStep]:
        """Publish a message of the server's own to all nodes, in the formats that they use.

        The copies come first: so a Hopline node knows that its format is read here before it acts on the message.
        """
        preferred = self._formats.preferred(now)
        original = Publication(encode(message, preferred), to_partners)
        return [*self._copies(message, preferred, to_partners, now, also_in=also_in), original]

    def _copies(
        self,
        message: Message,
        written_in: WireFormat | None,
        to_partners: bool,
        now: int,
        *,
        also_in: Iterable[WireFormat] = (),
    ) -> list[Publication]:
        needed = {*self._formats.in_use(now), *also_in} - {written_in}
        formats = [wire_format for wire_format in SERVICE_FORMATS if wire_format in needed]
        return [Publication(frames, to_partners) for frames in copies(message, formats)]
