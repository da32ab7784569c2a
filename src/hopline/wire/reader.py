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
        names = self.layout.names()
        fields = {name: self._values[name] for name in names}
        return Message(**fields, wire_format=self.layout.wire_format)

    def view(self) -> RoutingView:
        """Read only what a router needs. Of the limits, the number of frames is looked at."""
        check_number_of_frames(self.frames, self.limits)
        meta = self.layout.meta
        if meta:
            has_hops = ["hops" in _names(row) for row in meta]
            end = has_hops.index(True) + 1
            self._read_meta(meta[:end])
        else:
            fixed = self.layout.fixed
            rows = [row for row in fixed if not ROUTING_FIELDS.isdisjoint(_names(row))]
            highest = max(row.position for row in rows)
            self._require(highest)
            for row in rows:
                self._read_frame(row.position, row.name, row)
        values = self._values
        fields = {name: values.get(name, b"") for name in ROUTING_FIELDS}  # the first format has no node
        return RoutingView(
            **fields,
            wire_format=self.layout.wire_format,
            frames=self.frames,
        )

    def _require(self, needed: int) -> None:
        count = len(self.frames)
        if count < needed:
            raise RemoteError(
                Reason.TOO_FEW_FRAMES,
                field="frames",
                expected=f"at least {needed}",
                found=f"{count} frames",
            )

    # -- frames -----------------------------------------------------------------------------------------------------

    def _read_frame(self, position: int, name: str, row: Field) -> Any:
        index = len(self.frames) - position
        self._seen.add(index)
        return self._keep(row, name, self.frames[index], position, None)

    def _keep(
        self,
        row: Field,
        name: str,
        raw: bytes,
        position: int,
        offset: int | None,
    ) -> Any:
        """Interpret the bytes of one row, and record the reading."""
        value = self._value(row, name, raw, position, offset)
        reading = Reading(position, name, raw, value, row, offset)
        self.readings.append(reading)
        if not row.words:
            self._values[name] = value
            return value
        start = 0
        for word, number in zip(row.words, value, strict=True):
            end = start + 2
            self._values[word.name] = number
            part = Reading(position, word.name, raw[start:end], number, word, offset)
            self.readings.append(part)
            start = end
        return value

    def _value(
        self,
        row: Field,
        name: str,
        raw: bytes,
        position: int,
        offset: int | None,
    ) -> Any:
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
        name = entries.name
        offset = self._values[f"{name}.offset"]
        count = self._values[f"{name}.count"]
        divisor = self._values.get(f"{name}.divisor", entries.divisor)
        if count <= 0 or divisor == 0:
            self._values[name] = ()
            return
        self._check_count(entries, count)
        total = len(self.frames)
        lowest_of_first = offset + (count - 1) * divisor
        top = lowest_of_first + len(entries.fields) - 1
        if offset < 1 or top > total:
            raise RemoteError(
                Reason.OFFSET_OUT_OF_RANGE,
                field=f"{name}.offset",
                expected=f"{count} entries of {divisor} frames within {total} frames",
                found=offset,
                position=self._position_of(f"{name}.offset"),
            )
        self._lowest = min(self._lowest, offset)
        entry_class = ENTRY_CLASS[name]
        entries_from_last = []
        bottom = offset
        for nth in reversed(range(count)):  # the last entry stands nearest to the end
            fields = {}
            for row in entries.fields:
                position = bottom + row.position
                fields[row.name] = self._read_frame(position, f"{name}[{nth}].{row.name}", row)
            entries_from_last.append(entry_class(**fields))
            bottom += divisor
        self._values[name] = tuple(reversed(entries_from_last))

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
        positions = (reading.position for reading in self.readings if reading.name == name)
        return next(positions)

    def _read_bodies(self) -> None:
        if not self.layout.has_body_offset:
            self._values["bodies"] = (self._values["bodies"],)
            return
        total = len(self.frames)
        offset = self._values["body.offset"]
        count = max(self._values["body.count"], 1)
        top = offset  # the offset is of the first frame, as the document says
        bottom = offset - count + 1
        if count > 1 and bottom <= self._occupied():
            top = offset + count - 1  # or of the lowest one, as with the entries
            bottom = offset
        if bottom < 1 or top > total:
            raise RemoteError(
                Reason.OFFSET_OUT_OF_RANGE,
                field="body.offset",
                expected=f"{count} body frames within {total} frames",
                found=offset,
                position=self._position_of("body.offset"),
            )
        self._lowest = min(self._lowest, bottom)
        bodies = []
        for position in range(bottom, top + 1):
            self._seen.add(total - position)
            body = self.frames[-position]
            name = f"bodies[{top - position}]"
            reading = Reading(position, name, body, body, BODY)
            self.readings.append(reading)
            bodies.append(body)
        self._values["bodies"] = tuple(reversed(bodies))

    def _occupied(self) -> int:
        """Count the frames below the body: the fixed ones, or as far up as the entries go."""
        occupied = len(self.layout.fixed)
        for entries in self.layout.entries:
            name = entries.name
            offset = self._values[f"{name}.offset"]
            count = self._values[f"{name}.count"]
            divisor = self._values[f"{name}.divisor"]
            if count and divisor:
                top = offset + count * divisor - 1
                occupied = max(occupied, top)
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
        meta = self.frames[-1]
        reading = Reading(1, "frame.meta", meta, None, self.layout.fixed[0])
        self.readings.append(reading)
        at = 0
        end = len(meta)
        for row in rows:
            if isinstance(row, Field):
                at = self._read_meta_field(row, row.name, at, end)
            else:
                at = self._read_meta_entries(row, at, end)
        self._end_of_meta = at

    def _read_meta_field(self, row: Field, name: str, at: int, end: int) -> int:
        """Read one field of the meta frame and return where the next one starts."""
        start = at
        width = row.type.width
        if not width:
            width = self._length(name, at, end)
            at += _LENGTH
        else:
            self._check_room(name, width, end - at, at)
        field_end = at + width
        raw = self.frames[-1][at:field_end]
        self._keep(row, name, raw, 1, start)
        return field_end

    def _length(self, name: str, at: int, end: int) -> int:
        """Read the length in front of a field or an entry; what it promises must be there."""
        self._check_room(name, _LENGTH, end - at, at)
        start = at + _LENGTH
        raw = self.frames[-1][at:start]
        length = int.from_bytes(raw, "little", signed=True)
        self._check_room(name, length, end - start, at)
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
        entry_class = ENTRY_CLASS[entries.name]
        values = []
        for nth in range(count):
            entry_name = f"{entries.name}[{nth}]"
            length = self._length(entry_name, at, end)
            at += _LENGTH
            entry_end = at + length
            fields = {}
            for row in entries.fields:
                name = f"{entry_name}.{row.name}"
                at = self._read_meta_field(row, name, at, entry_end)
                fields[row.name] = self._values[name]
            values.append(entry_class(**fields))
            at = entry_end  # skip what a newer writer put behind the known fields
        self._values[entries.name] = tuple(values)
        return at


BODY = Field(0, "bodies", Type.BYTES, "the content of the message")
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
    if isinstance(row, Field) and row.words:
        return [word.name for word in row.words]
    return [row.name]


def check_number_of_frames(frames: Sequence[bytes], limits: Limits) -> None:
    """Raise `RemoteError` if a message has more frames than the limits allow."""
    count = len(frames)
    if count > limits.frames:
        raise RemoteError(
            Reason.TOO_MANY_FRAMES,
            field="frames",
            expected=f"at most {limits.frames}",
            found=f"{count} frames",
        )


def check_limits(frames: Sequence[bytes], limits: Limits) -> None:
    """Raise `RemoteError` if a message is larger than the limits allow."""
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
    is_signed = row.type is not Type.U16
    number = int.from_bytes(raw[:width], "little", signed=is_signed)
    if row.values is not None:
        if number not in row.values:
            choices = ", ".join(map(str, row.values))
            raise _Fault(Reason.BAD_VALUE, f"one of {choices}", number)
        return row.values[number]
    if row.minimum is not None and number < row.minimum:
        raise _Fault(Reason.BAD_VALUE, f"at least {row.minimum}", number)
    if not I64_MIN <= number * row.scale <= I64_MAX:
        raise _Fault(Reason.BAD_VALUE, f"at most {I64_MAX // row.scale}", number)
    return number * row.scale
