"""What a rendezvous server does with what it hears: relay it, hold it, or refuse it and say who leads. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec

from hopline.cluster.formats import SERVICE_FORMATS, FormatsInUse, copies, is_copy
from hopline.cluster.lease import LONGEST, in_ticks
from hopline.cluster.partner import Listen, Partner
from hopline.cluster.rendezvous import NOBODY, Standing
from hopline.cluster.service import (
    DISCOVER_ROUTE,
    HEARTBEAT,
    NOT_LEADER,
    PING,
    PONG,
    RECONFIGURE,
    REGISTER_ROUTE,
    REQUEST_CLUSTER_ROUTES,
    REQUEST_NODE_ROUTES,
    UNREGISTER_NODE,
    UNREGISTER_ROUTE,
    UNREGISTER_UNREACHABLE_NODE,
    service_message,
)
from hopline.cluster.service_pb2 import HeartBeat, RendezvousNotLeader
from hopline.cluster.timespan import to_timespan
from hopline.message import LocalError, Message, PayloadError, WireFormat
from hopline.wire import RemoteError, annotate, decode, encode

# All that is ever relayed. Whether their signatures are good is for the nodes to see, which have the keys.
ROUTE_KINDS = frozenset(
    {
        REGISTER_ROUTE,
        UNREGISTER_ROUTE,
        UNREGISTER_NODE,
        REQUEST_CLUSTER_ROUTES,
        REQUEST_NODE_ROUTES,
        DISCOVER_ROUTE,
    }
)
ENVELOPE = 2  # frames that every message is sent with, in front
V6_FRAMES = ENVELOPE + 2  # and the body, and the meta frame
# What only a rendezvous server says: from anybody else it could take a network over.
LEADERS_KINDS = frozenset({HEARTBEAT, NOT_LEADER, RECONFIGURE, PONG})


class Refusal(StrEnum):
    """Why a message was not relayed. The codes are part of the interface: metrics use them."""

    MALFORMED = "malformed"
    AMBIGUOUS = "ambiguous"  # a node that knows one format only might read another message in it
    LEADERS_ONLY = "leaders_only"  # it would have spoken for a rendezvous server
    EVICTION = "eviction"  # it would have thrown a node out, unsigned
    UNKNOWN_KIND = "unknown_kind"
    FOREIGN_DOMAIN = "foreign_domain"  # a partner's message of a domain that is not let in
    NOT_LEADER = "not_leader"  # another leads: the sender is told who
    NO_LEADER = "no_leader"  # a ping that nobody could answer
    NO_ROOM = "no_room"  # nobody led, and too many waited already
    TOO_LATE = "too_late"  # nobody led for as long as it could wait


class RelaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a rendezvous server relays. Times are in seconds."""

    heartbeat_interval: float = 5.0  # between two heartbeats of the leader, or two words of a follower on who leads
    wire_format: WireFormat = WireFormat.V5  # of what the server says itself, until nodes are heard in other formats
    format_memory: float = 600.0  # how long a format is spoken after the last message of a node in it
    held_messages: int = 1_000  # that may wait while nobody is known to lead
    held_bytes: int = 16 * 1024 * 1024  # of all that wait
    holding_time: float = 10.0  # how long they may: a restarted synod needs about a lease, and a bit
    not_leader_spacing: float = 0.1  # between two words on who leads, however many messages come

    def __post_init__(self) -> None:
        for name, least, most in (
            ("heartbeat_interval", 0.001, LONGEST),
            ("held_messages", 0, 2**31),
            ("held_bytes", 0, 2**40),
            ("holding_time", 0, LONGEST),
            ("not_leader_spacing", 0, LONGEST),
            ("format_memory", 0, LONGEST),
        ):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and least <= value <= most):
                raise LocalError(f"rendezvous.{name}", f"between {least:g} and {most:g}", value)
        if self.wire_format not in SERVICE_FORMATS:
            raise LocalError("rendezvous.wire_format", f"one of {', '.join(SERVICE_FORMATS)}", self.wire_format)


class RelayStatistics(msgspec.Struct):
    """What became of everything that came: `received` is the sum of the others, and of what is held."""

    received: int = 0
    relayed: int = 0
    pings: int = 0
    for_listening: int = 0  # partners' heartbeats and the like, which say whom to listen to
    refused: Counter[Refusal] = msgspec.field(default_factory=Counter)
    heartbeats: int = 0  # sent
    not_leaders: int = 0  # sent


class Publication(msgspec.Struct, frozen=True):
    """Frames for the broadcast socket, and perhaps for the partners' too."""

    frames: Sequence[bytes]
    to_partners: bool


RelayStep: TypeAlias = Publication | Listen


class _Held(msgspec.Struct, frozen=True):
    publication: Publication
    message: Message
    size: int
    until: int


class Relay:
    """Decides for one rendezvous server. Where it stands (`rendezvous.standing`) is handed in with each event.

    A message that is relayed keeps its frames as they came, in whatever format; only what sockets put in front is left
    behind. Where nodes speak several formats, copies in the others follow: see `hopline.cluster.formats`.

    `now` is in ticks of 100 ns of any clock that does not go back. Call `tick` when `next_tick` has come, and when the
    standing has changed: the nodes are told at once.
    """

    def __init__(self, settings: RelaySettings, now: int) -> None:
        self.statistics = RelayStatistics()
        self._settings = settings
        self._interval = in_ticks(settings.heartbeat_interval)
        self._holding_time = in_ticks(settings.holding_time)
        self._spacing = in_ticks(settings.not_leader_spacing)
        self._held: deque[_Held] = deque()
        self._held_bytes = 0
        self._standing = NOBODY
        self._beat_at = now
        self._told_at = now - self._spacing
        self._to_tell: bool | None = None  # who leads is still to be said, and whether to partners too
        self._formats = FormatsInUse(settings.wire_format, in_ticks(settings.format_memory))
        self._asked_in: set[WireFormat] = set()  # by those who wait to hear who leads
        heartbeat = HeartBeat(heart_beat_interval=to_timespan(settings.heartbeat_interval))
        self._heartbeat = service_message(HEARTBEAT, heartbeat)

    @property
    def held(self) -> int:
        """How many messages wait for a leader."""
        return len(self._held)

    @property
    def next_tick(self) -> int:
        """When `tick` has something to do."""
        times = [self._beat_at]
        if self._held:
            times.append(self._held[0].until)
        if self._to_tell is not None:
            times.append(self._told_at + self._spacing)
        return min(times)

    # -- events -----------------------------------------------------------------------------------------------------

    def on_unicast(self, frames: Sequence[bytes], standing: Standing, now: int) -> list[RelayStep]:
        """Decide on what a node sent."""
        steps = self._look_around(standing, now)
        message, own_frames = self._read(frames)
        if message is None:
            return steps
        kind = message.identifier
        if kind in ROUTE_KINDS:
            self._formats.heard(message.wire_format, now)
            steps += self._relay(Publication(own_frames, to_partners=True), message, standing, now)
        elif kind == PING:
            steps += self._answer_ping(message.wire_format, standing, now)
        elif kind in LEADERS_KINDS:
            self._refuse(Refusal.LEADERS_ONLY)
        else:
            self._refuse(Refusal.EVICTION if kind == UNREGISTER_UNREACHABLE_NODE else Refusal.UNKNOWN_KIND)
        return steps

    def on_partner(self, frames: Sequence[bytes], partner: Partner, standing: Standing, now: int) -> list[RelayStep]:
        """Decide on what a partner network published; it never goes back to partners."""
        steps = self._look_around(standing, now)
        if is_copy(frames):
            return steps
        message, own_frames = self._read(frames)
        if message is None:
            return steps
        if message.identifier in LEADERS_KINDS:
            try:
                listen = partner.hear(message, now)
            except PayloadError:
                self._refuse(Refusal.MALFORMED)
                return steps
            self.statistics.for_listening += 1
            return steps if listen is None else [*steps, listen]
        if message.identifier not in ROUTE_KINDS:
            self._refuse(Refusal.UNKNOWN_KIND)
        elif not partner.allows(message.domain):
            self._refuse(Refusal.FOREIGN_DOMAIN)
        else:
            steps += self._relay(Publication(own_frames, to_partners=False), message, standing, now)
        return steps

    def tick(self, standing: Standing, now: int) -> list[RelayStep]:
        """Say who leads when it is time, and let go of what waited for too long."""
        return self._look_around(standing, now)

    def _look_around(self, standing: Standing, now: int) -> list[RelayStep]:
        """Do whatever the time and the standing ask for, before anything else."""
        steps: list[RelayStep] = []
        if standing != self._standing:
            self._standing = standing
            self._beat_at = now
            self._to_tell = None
        if now >= self._beat_at:
            self._beat_at = now + self._interval
            if standing.leads:
                self.statistics.heartbeats += 1
                steps += self._say(self._heartbeat, now)
            elif standing.leader is not None:
                self._to_tell = True
        steps += self._let_go(standing, now)
        return steps + self._tell(standing, now)

    # -- relaying ---------------------------------------------------------------------------------------------------

    def _read(self, frames: Sequence[bytes]) -> tuple[Message | None, list[bytes]]:
        """Read a message, and take its own frames from below what sockets put in front."""
        self.statistics.received += 1
        try:
            message = decode(frames)
        except RemoteError:
            self._refuse(Refusal.MALFORMED)
            return None, []
        own_frames = [b"", b"", *(_frames_as_we_write_them(message, frames) or _frames_that_are_read(frames))]
        if _is_ambiguous(message, own_frames):
            self._refuse(Refusal.AMBIGUOUS)
            return None, []
        return message, own_frames

    def _relay(self, publication: Publication, message: Message, standing: Standing, now: int) -> list[RelayStep]:
        if standing.leads:
            self.statistics.relayed += 1
            return [publication, *self._copies(message, message.wire_format, publication.to_partners, now)]
        if standing.leader is not None:
            return self._say_who_leads(standing, now, to_partners=publication.to_partners)
        size = sum(map(len, publication.frames))
        settings = self._settings
        if len(self._held) >= settings.held_messages or self._held_bytes + size > settings.held_bytes:
            self._refuse(Refusal.NO_ROOM)
        else:
            self._held.append(_Held(publication, message, size, now + self._holding_time))
            self._held_bytes += size
        return []

    def _let_go(self, standing: Standing, now: int) -> list[RelayStep]:
        """See what becomes of the messages that waited for a leader; those whose time is over were not relayed."""
        steps: list[RelayStep] = []
        while self._held and (standing != NOBODY or now >= self._held[0].until):
            held = self._held.popleft()
            self._held_bytes -= held.size
            if now >= held.until:
                self._refuse(Refusal.TOO_LATE)
            else:
                steps += self._relay(held.publication, held.message, standing, now)
        return steps

    def _answer_ping(self, wire_format: WireFormat | None, standing: Standing, now: int) -> list[RelayStep]:
        """Answer in the format of the question too: whoever asks may not know yet which formats are spoken here."""
        asked_in = () if wire_format is None else (wire_format,)
        if standing.leads:
            self.statistics.pings += 1
            return self._say(service_message(PONG, None), now, also_in=asked_in)
        if standing.leader is not None:
            self._asked_in.update(asked_in)
            return self._say_who_leads(standing, now, to_partners=True)
        self._refuse(Refusal.NO_LEADER)
        return []

    def _refuse(self, refusal: Refusal) -> None:
        self.statistics.refused[refusal] += 1

    # -- who leads --------------------------------------------------------------------------------------------------

    def _say_who_leads(self, standing: Standing, now: int, *, to_partners: bool) -> list[RelayStep]:
        self._refuse(Refusal.NOT_LEADER)
        self._to_tell = bool(self._to_tell) or to_partners
        return self._tell(standing, now)

    def _tell(self, standing: Standing, now: int) -> list[RelayStep]:
        """Say who leads if that is due and was not said a moment ago: everybody hears it at once."""
        to_partners, leader = self._to_tell, standing.leader
        if to_partners is None or leader is None or now < self._told_at + self._spacing:
            return []
        self._to_tell = None
        self._told_at = now
        self.statistics.not_leaders += 1
        asked_in, self._asked_in = self._asked_in, set()
        message = service_message(NOT_LEADER, RendezvousNotLeader(new_leader=leader.content()))
        return self._say(message, now, to_partners=to_partners, also_in=asked_in)

    # -- formats ----------------------------------------------------------------------------------------------------

    def _say(
        self, message: Message, now: int, *, to_partners: bool = True, also_in: Iterable[WireFormat] = ()
    ) -> list[RelayStep]:
        """Say something of the server's own to all nodes, in the formats that they speak.

        The copies come first: so a Hopline node knows that its format is read here before it acts on what was said.
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
        wanted = {*self._formats.in_use(now), *also_in} - {written_in}
        formats = [one for one in SERVICE_FORMATS if one in wanted]
        return [Publication(frames, to_partners) for frames in copies(message, formats)]


def _frames_as_we_write_them(message: Message, frames: Sequence[bytes]) -> list[bytes] | None:
    """Find the frames of a message at the end of those received; None if its writer did anything differently."""
    try:
        written = encode(message, message.wire_format or WireFormat.V6)[ENVELOPE:]
    except LocalError:
        return None
    return written if written == list(frames[-len(written) :]) else None


def _frames_that_are_read(frames: Sequence[bytes]) -> Sequence[bytes]:
    """Leave off what the careful reader has no use for. Offsets count from the end, so that they stay right."""
    return frames[sum(reading.name == "envelope" for reading in annotate(frames).readings) :]


def _is_ambiguous(message: Message, frames: list[bytes]) -> bool:
    """Tell whether a node that knows one format only could find another message in the frames than we did.

    Nodes of the reference do not tell formats apart. The last frame of the first format is whatever its sender likes,
    even a header of V6; and above the header of V6 there is room for all the frames of V5.
    """
    if message.wire_format not in SERVICE_FORMATS:
        return True
    return message.wire_format is WireFormat.V6 and len(frames) != V6_FRAMES
