"""The careful reader: walks a layout table, field by field, and says exactly where the bytes go wrong.

It is the authority on what a message means. The compiled codecs are fast paths beside it, and leave to it whatever they
do not recognise; the annotated dump is the list of what it read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hopline.message import Message, usable_extension, version_from_text
from hopline.wire.errors import Reason, RemoteError
from hopline.wire.layout import ABSOLUTE_URI, ENTRY_CLASS, WORDS, Empty, Entries, Field, Layout, Type, Word
from hopline.wire.layouts import V6
from hopline.wire.limits import DEFAULT_LIMITS, Limits
from hopline.wire.view import ROUTING_FIELDS, RoutingView

I64_MIN, I64_MAX = -(2**63), 2**63 - 1

_LENGTH = 4  # bytes of the i32 in front of whatever varies in the meta frame


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing that was read: a frame, a word of a packed frame, or a field of the meta frame."""

    position: int
    name: str
    raw: bytes
    value: Any
    row: Field | Word
    offset: int | None = None  # the byte inside the meta frame


class Reader:
    """Reads one message. `readings` grows as it goes, so that after a fault it holds what was good."""

    def __init__(self, frames: Sequence[bytes], layout: Layout, limits: Limits = DEFAULT_LIMITS) -> None:
        self.frames = frames
        self.layout = layout
        self.limits = limits
        self.readings: list[Reading] = []
        self._values: dict[str, Any] = {}
        self._seen: set[int] = set()
        self._lowest = len(frames)  # position of whatever stands right above the fixed frames, known ones or not
        self._end_of_meta = 0

    def read(self) -> Message:
        """Read everything, or raise `RemoteError` at the first fault."""
        check_limits(self.frames, self.limits)
        self._require(len(self.layout.fixed) + self.layout.has_body_offset)
        if self.layout.meta:
            self.read_meta()
        else:
            for row in self.layout.fixed:
                self._read_frame(row.position, row.name, row)
            for entries in self.layout.entries:
                self._read_entries(entries)
        self._read_bodies()
        if self.layout.extension is not None:
            self._read_extension(self.layout.extension)
        self._read_rest()
        known = {name: self._values[name] for name in self.layout.names()}
        return Message(**known, wire_format=self.layout.wire_format)

    def view(self) -> RoutingView:
        """Read only what a router needs. Of the limits, the number of frames is looked at."""
        check_number_of_frames(self.frames, self.limits)
        if self.layout.meta:
            last = next(at for at, row in enumerate(self.layout.meta) if "hops" in _names(row))
            self._read_meta(self.layout.meta[: last + 1])
        else:
            rows = [row for row in self.layout.fixed if not ROUTING_FIELDS.isdisjoint(_names(row))]
            self._require(max(row.position for row in rows))
            for row in rows:
                self._read_frame(row.position, row.name, row)
        fields = {name: self._values.get(name, b"") for name in ROUTING_FIELDS}  # the first format has no node
        return RoutingView(**fields, wire_format=self.layout.wire_format, frames=self.frames)

    def _require(self, needed: int) -> None:
        if len(self.frames) < needed:
            raise RemoteError(
                Reason.TOO_FEW_FRAMES, field="frames", expected=f"at least {needed}", found=f"{len(self.frames)} frames"
            )

    # -- frames -----------------------------------------------------------------------------------------------------

    def _read_frame(self, position: int, name: str, row: Field) -> Any:
        index = len(self.frames) - position
        self._seen.add(index)
        return self._keep(row, name, self.frames[index], position, None)

    def _keep(self, row: Field, name: str, raw: bytes, position: int, offset: int | None) -> Any:
        """Interpret the bytes of one row and note it."""
        value = self._value(row, name, raw, position, offset)
        self.readings.append(Reading(position, name, raw, value, row, offset))
        if row.words:
            for at, (word, number) in enumerate(zip(row.words, value, strict=True)):
                self._values[word.name] = number
                part = Reading(position, word.name, raw[2 * at : 2 * at + 2], number, word, offset)
                self.readings.append(part)
        else:
            self._values[name] = value
        return value

    def _value(self, row: Field, name: str, raw: bytes, position: int, offset: int | None) -> Any:
        """Return the value of a row's bytes, or raise `RemoteError` with their place."""
        try:
            match row.type:
                case Type.BYTES:
                    return raw
                case Type.VERSION_TEXT:
                    return version_from_text(raw)
                case Type.TEXT:
                    return raw.decode("utf-8", "replace")
                case Type.URI:
                    return _read_uri(raw)
                case _:
                    return _read_number(row, raw)
        except _Fault as fault:
            raise RemoteError(
                fault.reason,
                field=name,
                expected=fault.expected,
                found=fault.found,
                position=position,
                offset=offset,
            ) from None

    def _read_entries(self, entries: Entries) -> None:
        offset, count = self._values[f"{entries.name}.offset"], self._values[f"{entries.name}.count"]
        divisor = self._values.get(f"{entries.name}.divisor", entries.divisor)
        if count <= 0 or divisor == 0:
            self._values[entries.name] = ()
            return
        self._check_count(entries, count)
        top = offset + (count - 1) * divisor + len(entries.fields) - 1
        if offset < 1 or top > len(self.frames):
            raise RemoteError(
                Reason.OFFSET_OUT_OF_RANGE,
                field=f"{entries.name}.offset",
                expected=f"{count} entries of {divisor} frames within {len(self.frames)} frames",
                found=offset,
                position=self._position_of(f"{entries.name}.offset"),
            )
        self._lowest = min(self._lowest, offset)
        found = []
        for nth in range(count - 1, -1, -1):  # the last entry stands nearest to the end
            bottom = offset + (count - 1 - nth) * divisor
            found.append(
                {
                    row.name: self._read_frame(bottom + row.position, f"{entries.name}[{nth}].{row.name}", row)
                    for row in entries.fields
                }
            )
        self._values[entries.name] = tuple(ENTRY_CLASS[entries.name](**entry) for entry in reversed(found))

    def _check_count(self, entries: Entries, count: int) -> None:
        if count > self.limits.entries:
            raise RemoteError(
                Reason.TOO_MANY_ENTRIES,
                field=f"{entries.name}.count",
                expected=f"at most {self.limits.entries}",
                found=count,
                position=self._position_of(f"{entries.name}.count"),
            )

    def _position_of(self, name: str) -> int:
        return next(reading.position for reading in self.readings if reading.name == name)

    def _read_bodies(self) -> None:
        if not self.layout.has_body_offset:
            self._values["bodies"] = (self._values["bodies"],)
            return
        total = len(self.frames)
        offset, count = self._values["body.offset"], max(self._values["body.count"], 1)
        top, bottom = offset, offset - count + 1  # the offset is of the first frame, as the document says
        if count > 1 and bottom <= self._occupied():
            top, bottom = offset + count - 1, offset  # or of the lowest one, as with the entries
        if bottom < 1 or top > total:
            raise RemoteError(
                Reason.OFFSET_OUT_OF_RANGE,
                field="body.offset",
                expected=f"{count} body frames within {total} frames",
                found=offset,
                position=self._position_of("body.offset"),
            )
        self._lowest = min(self._lowest, bottom)
        for position in range(bottom, top + 1):
            self._seen.add(total - position)
            self.readings.append(
                Reading(position, f"bodies[{top - position}]", raw := self.frames[-position], raw, BODY)
            )
        self._values["bodies"] = tuple(self.frames[total - top : total - bottom + 1])

    def _occupied(self) -> int:
        """Count the frames below the body: the fixed ones, or as far up as the entries go."""
        occupied = len(self.layout.fixed)
        for entries in self.layout.entries:
            offset, count, divisor = (self._values[f"{entries.name}.{what}"] for what in ("offset", "count", "divisor"))
            if count and divisor:
                occupied = max(occupied, offset + count * divisor - 1)
        return occupied

    def _read_extension(self, row: Field) -> None:
        """Read Hopline's extension, if there is one: what is no map of ours is skipped like any unknown frame."""
        if self.layout.meta:
            position, offset, raw = 1, self._end_of_meta, self.frames[-1][self._end_of_meta :]
        elif self._lowest > row.position:
            position, offset, raw = row.position, None, self.frames[-row.position]
        else:
            position, offset, raw = row.position, None, b""
        self._values[row.name] = extension = usable_extension(raw)
        if extension:
            if not self.layout.meta:
                self._seen.add(len(self.frames) - position)
            self.readings.append(Reading(position, row.name, raw, extension, row, offset))

    def _read_rest(self) -> None:
        """Note the envelope, and the frames that nobody asked for."""
        total = len(self.frames)
        body_top = min(self._seen)
        for index in range(total - 1, -1, -1):
            if index in self._seen:
                continue
            raw = self.frames[index]
            row = ENVELOPE if index < body_top else UNKNOWN
            self.readings.append(Reading(total - index, row.name, raw, raw, row))
        self._values["socket_identity"] = self.frames[0] if body_top > 0 else b""

    # -- the meta frame of V6 ---------------------------------------------------------------------------------------

    def read_meta(self) -> None:
        """Read the meta frame, and nothing else of the message."""
        self._read_meta(self.layout.meta)

    def _read_meta(self, rows: Iterable[Field | Entries]) -> None:
        self._seen.add(len(self.frames) - 1)
        self.readings.append(Reading(1, "frame.meta", self.frames[-1], None, self.layout.fixed[0]))
        at, end = 0, len(self.frames[-1])
        for row in rows:
            if isinstance(row, Field):
                at = self._read_meta_field(row, row.name, at, end)
            else:
                at = self._read_meta_entries(row, at, end)
        self._end_of_meta = at

    def _read_meta_field(self, row: Field, name: str, at: int, end: int) -> int:
        """Read one field of the meta frame and return where the next one starts."""
        start, width = at, row.type.width
        if not width:
            width = self._length(name, at, end)
            at += _LENGTH
        else:
            self._check_room(name, width, end - at, at)
        self._keep(row, name, self.frames[-1][at : at + width], 1, start)
        return at + width

    def _length(self, name: str, at: int, end: int) -> int:
        """Read the length in front of a field or an entry; what it promises must be there."""
        self._check_room(name, _LENGTH, end - at, at)
        length = int.from_bytes(self.frames[-1][at : at + _LENGTH], "little", signed=True)
        self._check_room(name, length, end - at - _LENGTH, at)
        return length

    def _check_room(self, name: str, width: int, left: int, at: int) -> None:
        if not 0 <= width <= left:
            raise RemoteError(
                Reason.LENGTH_OUT_OF_RANGE,
                field=name,
                expected=f"{width} bytes" if width >= 0 else "no negative length",
                found=f"{left} left" if width >= 0 else width,
                position=1,
                offset=at,
            )

    def _read_meta_entries(self, entries: Entries, at: int, end: int) -> int:
        count = self._values[f"{entries.name}.count"]
        self._check_count(entries, count)
        found = []
        for nth in range(count):
            entry_end = self._length(f"{entries.name}[{nth}]", at, end) + at + _LENGTH
            at += _LENGTH
            entry = {}
            for row in entries.fields:
                name = f"{entries.name}[{nth}].{row.name}"
                at = self._read_meta_field(row, name, at, entry_end)
                entry[row.name] = self._values[name]
            found.append(ENTRY_CLASS[entries.name](**entry))
            at = entry_end  # whatever a newer writer put behind the fields it is not for us
        self._values[entries.name] = tuple(found)
        return at


BODY = Field(0, "bodies", Type.BYTES, "what the message says")
ENVELOPE = Field(0, "envelope", Type.BYTES, "what the sockets put in front; any number of frames")
UNKNOWN = Field(0, "unknown", Type.BYTES, "a frame that no table knows, skipped")


# A count in the meta frame has 16 bits; what is too much for a reader is a meta frame all the same.
_ANY_COUNT = Limits(entries=2**16)


def is_meta_frame(frame: bytes) -> bool:
    """Return whether a frame can be read as a V6 meta frame, from its number to its last field."""
    if not frame.startswith(V6.number):
        return False
    try:
        Reader([frame], V6, _ANY_COUNT).read_meta()
    except RemoteError:
        return False
    return True


def _names(row: Field | Entries) -> list[str]:
    return [word.name for word in row.words] if isinstance(row, Field) and row.words else [row.name]


def check_number_of_frames(frames: Sequence[bytes], limits: Limits) -> None:
    """Refuse a message of more frames than anyone should send."""
    if len(frames) > limits.frames:
        raise RemoteError(
            Reason.TOO_MANY_FRAMES, field="frames", expected=f"at most {limits.frames}", found=f"{len(frames)} frames"
        )


def check_limits(frames: Sequence[bytes], limits: Limits) -> None:
    """Refuse a message that is larger than anyone should send."""
    check_number_of_frames(frames, limits)
    for index, frame in enumerate(frames):
        if len(frame) > limits.frame_size:
            raise RemoteError(
                Reason.FRAME_TOO_LARGE,
                field="frames",
                expected=f"at most {limits.frame_size} bytes",
                found=f"{len(frame)} bytes",
                position=len(frames) - index,
            )
    size = sum(map(len, frames))
    if size > limits.message_size:
        raise RemoteError(
            Reason.MESSAGE_TOO_LARGE,
            field="frames",
            expected=f"at most {limits.message_size} bytes",
            found=f"{size} bytes",
        )


class _Fault(Exception):  # noqa: N818 - it becomes a RemoteError once the place is known
    def __init__(self, reason: Reason, expected: str, found: bytes | int) -> None:
        self.reason = reason
        self.expected = expected
        self.found = found


def _read_uri(raw: bytes) -> str:
    uri = raw.decode("utf-8", "replace")
    if not ABSOLUTE_URI.match(uri):
        raise _Fault(Reason.BAD_URI, "an absolute URI", raw)
    return uri


def _read_number(row: Field, raw: bytes) -> Any:
    """Return the number, the named value or the words that a row of fixed width has."""
    width = row.type.width
    if not raw and row.empty is Empty.NO_ENTRIES:
        return 0
    if len(raw) < width:
        raise _Fault(Reason.TOO_SHORT, f"{width} bytes ({row.type.value})", raw)
    if row.type is Type.WORDS:
        return WORDS.unpack_from(raw)
    number = int.from_bytes(raw[:width], "little", signed=row.type is not Type.U16)
    if row.values is not None:
        if number not in row.values:
            raise _Fault(Reason.BAD_VALUE, f"one of {', '.join(map(str, row.values))}", number)
        return row.values[number]
    if row.minimum is not None and number < row.minimum:
        raise _Fault(Reason.BAD_VALUE, f"at least {row.minimum}", number)
    if not I64_MIN <= number * row.scale <= I64_MAX:
        raise _Fault(Reason.BAD_VALUE, f"at most {I64_MAX // row.scale}", number)
    return number * row.scale
