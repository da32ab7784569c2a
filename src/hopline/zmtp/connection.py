"""One side of one connection.

Theory of operation. A connection goes through four states, always in this order:

* OPENING: the peer's signature and the first byte of its version are awaited. We send ours at once, and no more, for
  what follows depends on the version that the peer speaks.
* GREETING: the rest of the peer's greeting is awaited, in the layout of its version. ZMTP 2.0 ends the handshake here,
  with a frame that holds the peer's identity.
* HANDSHAKE: of ZMTP 3.x, the peer's READY is awaited. It says what the peer is, and what it calls itself.
* TRAFFIC: messages and commands, until the bytes end.

From any of them a violation of the protocol, or an ERROR of the peer, leads to CLOSED: one event reports it, the bytes
that follow are ignored. During a handshake of ZMTP 3.x the peer is told the reason, by an ERROR command.

The invariant that tests hold this to: however the same bytes are cut into pieces, the same events come out. Hence every
check depends on a position in the stream and on nothing else, and errors are events among the others.

Nothing is read again before it can be complete: `_missing` is how many bytes have to come before anything can be done.
So a frame of many megabytes costs time in proportion to its size, in however many pieces it comes.

libzmq inserts a PING wherever it likes, between the frames of one message too; commands are therefore accepted there.
"""

from __future__ import annotations

from enum import Enum, auto

from hopline.zmtp import commands
from hopline.zmtp.commands import CommandError
from hopline.zmtp.events import Event, PeerError, Ping, Pong, Ready, Subscription, Violation
from hopline.zmtp.framing import (
    COMMAND,
    LONG,
    LONG_HEADER,
    MORE,
    RESERVED,
    SHORT_HEADER,
    encode_command,
    encode_message,
    read_size,
)
from hopline.zmtp.greeting import (
    MAJOR,
    MAJOR_3,
    OPENING,
    REST_3,
    SIZE_2_0,
    SIZE_3,
    SOCKET_TYPE_2_0,
    GreetingError,
    Version,
    check_opening,
    version_of,
)
from hopline.zmtp.limits import DEFAULT_LIMITS, Limits
from hopline.zmtp.socket_types import BY_NAME, BY_NUMBER, SocketType

_SUBSCRIBE = 1  # the first byte of a message that subscribes, in ZMTP 2.0 and 3.0
_CANCEL = 0
_PUBLISHERS = (SocketType.PUB, SocketType.XPUB)


class _State(Enum):
    OPENING = auto()
    GREETING = auto()
    HANDSHAKE = auto()
    TRAFFIC = auto()
    CLOSED = auto()


class _PeerViolationError(Exception):
    """Raised where a violation is found, and turned into an event at one place."""


class Connection:
    """Turns received bytes into events, and keeps what has to be answered.

    Args:
        socket_type: What this side is.
        identity: What this side calls itself, at most 255 bytes of which the first is not zero.
        limits: How much the peer may send.

    Raises:
        ValueError: The identity is one that a peer would refuse.

    """

    def __init__(self, socket_type: SocketType, identity: bytes = b"", limits: Limits = DEFAULT_LIMITS) -> None:
        if not commands.is_identity(identity):
            raise ValueError(f"identity: {commands.IDENTITY_RULE}, not {identity[:16]!r} of {len(identity)} bytes")
        self.version: Version | None = None
        self._socket_type = socket_type
        self._identity = identity
        self._limits = limits
        self._takes_subscriptions = socket_type in _PUBLISHERS
        self._state = _State.OPENING
        self._output: list[bytes] = [OPENING]
        self._partial = bytearray()  # received, and part of something that is not complete
        self._missing = 0  # bytes that have to come before it can be
        self._frames: list[bytes] = []  # of the message that is being received
        self._large_bytes = 0  # in those of its frames that are not small
        self._small = limits.small_frame

    @property
    def is_ready(self) -> bool:
        """Return whether the handshake is complete and the connection was not closed since."""
        return self._state is _State.TRAFFIC

    @property
    def is_closed(self) -> bool:
        """Return whether the peer broke the protocol or refused this side."""
        return self._state is _State.CLOSED

    @property
    def missing(self) -> int:
        """Return how many bytes have to come, at the least, before there is anything to report."""
        return self._missing

    def take_output(self) -> bytes:
        """Return what has to be written now: the handshake, and answers to pings."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def subscription(self, topic: bytes, *, is_wanted: bool = True) -> bytes:
        """Return the bytes that subscribe to a topic, or cancel that, as the peer's version has it.

        Call it after `Ready`: the version is not known before.
        """
        if self.version is Version.V3_1:
            return encode_command(commands.SUBSCRIBE if is_wanted else commands.CANCEL, topic)
        return encode_message([bytes((_SUBSCRIBE if is_wanted else _CANCEL,)) + topic])

    def ping(self, time_to_live: float) -> bytes:
        """Return the bytes that ask for a sign of life, or none if the peer's version does not know how to give one."""
        has_heartbeats = self.version is not None and self.version.has_heartbeats
        return commands.ping(time_to_live) if has_heartbeats else b""

    # -- receiving -----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """Return what the peer's next bytes amount to, in order. After a `Violation` or `PeerError` nothing comes."""
        events: list[Event] = []
        if len(data) < self._missing:
            self._missing -= len(data)
            self._partial += data
            return events
        if self._partial:
            self._partial += data
            data = bytes(self._partial)
            self._partial.clear()
        try:
            self._read(data, events)
        except _PeerViolationError as violation:
            self._refuse(str(violation))
            events.append(Violation(str(violation)))
        if self._state is _State.CLOSED:  # keep nothing, and come by here again with the bytes that follow
            self._partial.clear()
            self._frames = []
            self._missing = 0
        return events

    def _read(self, data: bytes, events: list[Event]) -> None:
        at = 0
        if self._state is _State.OPENING:
            self._read_opening(data)
        if self._state is _State.GREETING:
            at = self._read_greeting(data, events)
        if self._state is _State.HANDSHAKE:
            at = self._read_handshake(data, at, events)
        if self._state is _State.TRAFFIC:
            at = self._read_traffic(data, at, events)
        if at < len(data):
            self._partial += data[at:]

    def _refuse(self, reason: str) -> None:
        if self._state is _State.HANDSHAKE:
            self._output.append(commands.error(reason))
        self._state = _State.CLOSED

    # -- the handshake -------------------------------------------------------------------------------------------------

    def _read_opening(self, data: bytes) -> None:
        try:
            check_opening(data)
        except GreetingError as error:
            raise _PeerViolationError(str(error)) from error
        if len(data) <= MAJOR:
            return  # `_missing` stays zero: the signature is checked byte by byte
        self._state = _State.GREETING
        if data[MAJOR] >= MAJOR_3:
            self._output.append(REST_3)
        else:
            self._output.append(bytes((self._socket_type.number,)))
            self._output.append(encode_message([self._identity]))

    def _read_greeting(self, data: bytes, events: list[Event]) -> int:
        is_version_3 = data[MAJOR] >= MAJOR_3
        size = SIZE_3 if is_version_3 else SIZE_2_0
        self._missing = max(0, size - len(data))
        if self._missing:
            return 0
        if is_version_3:
            try:
                self.version = version_of(data)
            except GreetingError as error:
                raise _PeerViolationError(str(error)) from error
            self._output.append(commands.ready(self._socket_type, self._identity))
            self._state = _State.HANDSHAKE
            return size
        return self._read_identity(data, events)

    def _read_identity(self, data: bytes, events: list[Event]) -> int:
        """Read the end of the handshake of ZMTP 2.0: the type of the peer's socket, and a frame with its identity."""
        number = data[SOCKET_TYPE_2_0]
        partner = self._partner(BY_NUMBER.get(number), str(number))
        self.version = Version.V2_0
        frame = self._frame(data, SIZE_2_0)
        if frame is None:
            return 0
        flags, start, end = frame
        if flags & MORE:
            raise _PeerViolationError("the greeting does not end with an identity")
        self._become_ready(partner, data[start:end], events)
        return end

    def _read_handshake(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read the one command that ends the handshake of ZMTP 3.x: READY, or ERROR from a peer that refuses us."""
        frame = self._frame(data, at)
        if frame is None:
            return at
        flags, start, end = frame
        if not flags & COMMAND:
            raise _PeerViolationError("a message before the handshake was complete")
        try:
            name, content = commands.split(data[start:end])
            if name == commands.ERROR:
                self._close_with(PeerError(commands.read_reason(content)), events)
            elif name == commands.READY:
                properties = commands.read_properties(content)
                type_name = properties.get(commands.SOCKET_TYPE, b"")
                partner = self._partner(BY_NAME.get(type_name), type_name.decode("ascii", "replace"))
                self._become_ready(partner, properties.get(commands.IDENTITY, b""), events)
            else:
                raise CommandError("a command other than READY during the handshake")
        except CommandError as error:
            raise _PeerViolationError(str(error)) from error
        return end

    def _partner(self, socket_type: SocketType | None, shown: str) -> SocketType:
        """Return what the peer is, if this side may talk to that."""
        if socket_type is None or not self._socket_type.can_talk_to(socket_type):
            raise _PeerViolationError(f"a {self._socket_type.name} socket cannot talk to one of type {shown[:16]!a}")
        return socket_type

    def _become_ready(self, partner: SocketType, identity: bytes, events: list[Event]) -> None:
        if not commands.is_identity(identity):
            raise _PeerViolationError(f"an identity that is not {commands.IDENTITY_RULE}")
        self._state = _State.TRAFFIC
        events.append(Ready(self._spoken, partner, identity))

    @property
    def _spoken(self) -> Version:
        """Return the version that the greetings settled on."""
        assert self.version is not None, "no version before the greeting is complete"  # noqa: S101
        return self.version

    def _close_with(self, event: Event, events: list[Event]) -> None:
        self._state = _State.CLOSED
        events.append(event)

    # -- frames --------------------------------------------------------------------------------------------------------

    def _read_traffic(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read whole frames, and return where the first one begins that is not complete."""
        end = len(data)
        frames = self._frames
        small = self._small
        self._missing = 0
        while end - at >= SHORT_HEADER:
            flags = data[at]
            # Small frames of messages are nearly all that there is.
            if flags <= MORE:
                start = at + SHORT_HEADER
                stop = start + data[at + 1]
            elif flags <= MORE | LONG and end - at >= LONG_HEADER and (size := read_size(data, at + 1)[0]) <= small:
                start = at + LONG_HEADER
                stop = start + size
            else:
                next_at = self._read_unusual(data, at, events)
                if next_at == at or self._state is _State.CLOSED:
                    return next_at
                at, frames = next_at, self._frames
                continue
            if stop > end:
                self._missing = stop - end
                break
            frames.append(data[start:stop])
            at = stop
            if not flags & MORE:
                self._end_message(events)
                frames = self._frames
        self._require_few_frames()
        return at

    def _read_unusual(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read a large frame or a command, and return where the next one begins; the same place if it is not whole."""
        self._require_few_frames()
        frame = self._frame(data, at)
        if frame is None:
            return at
        flags, start, end = frame
        if flags & COMMAND:
            try:
                self._take_command(*commands.split(data[start:end]), events)
            except CommandError as error:
                raise _PeerViolationError(str(error)) from error
            return end
        self._large_bytes += end - start
        self._frames.append(data[start:end])
        if not flags & MORE:
            self._end_message(events)
        return end

    def _frame(self, data: bytes, at: int) -> tuple[int, int, int] | None:
        """Return the flags of a frame and where its content begins and ends, or None as long as it is not complete."""
        available = len(data) - at
        if available < SHORT_HEADER:
            self._missing = SHORT_HEADER - available
            return None
        flags = data[at]
        self._check_flags(flags)
        header = LONG_HEADER if flags & LONG else SHORT_HEADER
        if available < header:
            self._missing = header - available
            return None
        size = read_size(data, at + 1)[0] if flags & LONG else data[at + 1]
        self._check_size(flags, size)
        start = at + header
        self._missing = max(0, start + size - len(data))
        return None if self._missing else (flags, start, start + size)

    def _check_flags(self, flags: int) -> None:
        if flags & RESERVED:
            raise _PeerViolationError(f"reserved flags of a frame are set: {flags:#04x}")
        if flags & COMMAND and (flags & MORE or not self._spoken.has_commands):
            raise _PeerViolationError("a command where there can be none")

    def _check_size(self, flags: int, size: int) -> None:
        limits = self._limits
        is_handshake = self._state is not _State.TRAFFIC
        most = limits.command_size if flags & COMMAND or is_handshake else limits.frame_size
        if size > most:
            raise _PeerViolationError(f"a frame of {size} bytes, where at most {most} are allowed")
        if not is_handshake and not flags & COMMAND and self._large_bytes + size > limits.message_size:
            raise _PeerViolationError(f"a message of more than {limits.message_size} bytes")

    def _require_few_frames(self) -> None:
        """Refuse a message of too many frames.

        Short frames are not counted one by one. It is enough to count before every event and at the end of each piece:
        then the events are the same as if every frame had been counted.
        """
        if len(self._frames) > self._limits.frames:
            raise _PeerViolationError(f"a message of more than {self._limits.frames} frames")

    def _end_message(self, events: list[Event]) -> None:
        self._require_few_frames()
        frames, self._frames = self._frames, []
        self._large_bytes = 0
        if not self._takes_subscriptions:
            events.append(frames)
        elif frames[0][:1] in (b"\0", b"\1"):  # what else a subscriber says means nothing to a publisher
            events.append(Subscription(frames[0][1:], is_wanted=frames[0][0] == _SUBSCRIBE))

    def _take_command(self, name: bytes, content: bytes, events: list[Event]) -> None:
        if name == commands.PING:
            time_to_live, context = commands.read_ping(content)
            self._output.append(commands.pong(context))
            events.append(Ping(time_to_live))
        elif name == commands.PONG:
            events.append(Pong(content))
        elif name in (commands.SUBSCRIBE, commands.CANCEL):
            if self._takes_subscriptions:
                events.append(Subscription(content, is_wanted=name == commands.SUBSCRIBE))
        elif name == commands.ERROR:
            self._close_with(PeerError(commands.read_reason(content)), events)
        # Other commands are for mechanisms and sockets that are not spoken here: they are ignored.
