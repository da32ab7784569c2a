"""Write ``docs/reference/wire-formats.md`` from the layout tables: ``python -m tools.wire_formats_page``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hopline import Message
from hopline.cluster.messages.format_declaration import MOST_FORMATS, READS
from hopline.cluster.messages.schema_declaration import SCHEMAS
from hopline.message import LARGEST_EXTENSION
from hopline.wire import DEFAULT_LIMITS, Empty, Entries, Field, Layout, Reason, Type, layouts

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "wire-formats.md"

INTRODUCTION = f"""\
# Wire formats

<!-- Made from the tables in src/hopline/wire/layouts.py by tools/wire_formats_page.py. Do not edit: make generate. -->

A message is one ZeroMQ multipart message. Frames are counted from the end: of n frames, `n-1` is
the last. Offsets in frames count the same way. All integers are little endian, texts are UTF-8.

The first frames belong to the sockets: a writer puts the receiver's socket identity and an empty
frame there. Depending on the types of the two sockets, a reader sees more or fewer of them, and
ignores them.

A star marks the **route selectors**, the fields that decide which receiver gets the message. A
field of a fixed width may have surplus bytes, which are ignored; too few are an error. Where the
original documents of the protocol are wrong or silent, the notes under each table say what holds.

A lifetime is the remaining one; 0 is no limit, and a negative one is over. `Message.ttl_ticks` has
it in ticks of 100 ns, whatever the unit on the wire. The *reference* is the implementation that the
documents describe. [The protocol](../explanation/protocol.md) explains the fields.

| format | last frame | recognised by |
|---|---|---|
| [FIRST](#first) | the body | an empty frame n-2, and at least {len(layouts.FIRST.fixed)} frames |
| [V4](#v4) | `{layouts.V4.number.hex(" ")}` | a last frame of 2 or 4 bytes that says 4, or 5 in four bytes |
| [V5](#v5) | `{layouts.V5.number.hex(" ")}` | a last frame of two bytes that says 5 |
| [V6](#v6) | the meta frame | a last frame that starts with `{layouts.V6.number.hex(" ")}` |

No body can change the format in which its message is read. A last frame that is a valid meta frame
from end to end makes the message V6, even if the frames above it look like the headers of FIRST. In
FIRST, whose last frame is the body, a body that is a whole meta frame of V6 cannot be written
(`LocalError`).
"""

ENTRIES_NOTE = """\
Entries are above the fixed frames, in the order of the list, the last one nearest to the end. An
offset points at the bottom frame of the last entry. The entry before it ends `divisor` frames
further up (2 in FIRST, which has no divisor). A newer writer may put more frames on top of each
entry and raise the divisor, or more fixed frames above the known ones. Readers use the received
offsets and divisors.
"""

BODY_NOTE = """\
The body is above the entries. Hopline writes the offset of its first frame; the others follow
towards the end, so that a reader that knows only one takes the first. An offset of the lowest frame,
by analogy with the entries, is accepted if the frames below the offset are not enough for the
others.
"""

META_NOTE = """\
The frames are the socket identity, an empty frame, the body, and the meta frame, which has the rows
below in this order. In it, bytes and text are preceded by their length (i32). So is an entry, not
counting the length itself, which lets a reader skip what a newer writer added at its end. Bytes
after the last row are ignored, unless they are Hopline's extension. Readers of V6 return the socket
identity; those of other formats do not.
"""

EXTENSION_NOTE = f"""\
## Hopline's extension

The documents define how a format grows: new frames are added on top, and readers skip what they do
not know. `extension` is such an addition, which no document has. In V4 and V5 it is one more frame
right above the fixed ones, with every offset larger by one; in V6 it is the bytes after the last row
of the meta frame. FIRST and the early dialects of V4 have no place for it. The reference ignores it.

It is a MessagePack map of names to plain values (texts, numbers, booleans, nil, or a list or map of
these) of at most {LARGEST_EXTENSION:,} bytes, and is written only if it has content. Nodes work
without it, signatures do not cover it, and it is never an error: an extension that is larger, or not
such a map, is skipped like any unknown frame. A node or rendezvous server that forwards a message
keeps the names that it does not know.

| name | value |
|---|---|
| `attempt` | the number of the attempt, from 2 on, of a request that is [asked again](actors.md#asking-again) |
| `traceparent`, `tracestate` | the span that sent the message, in the texts of W3C Trace Context |
| `{READS}` | in announcements: [formats that the node reads](../explanation/compatibility.md), at most {MOST_FORMATS} |
| `{SCHEMAS}` | in announcements: [fingerprints of the payloads](schemas.md#on-the-network) that the node handles |
"""

DIALECTS_NOTE = """\
Layouts that were in use for a while under one of the names above. All are recognised, except
`FIRST_TICKS`, which looks like `FIRST` (`decode(frames, first=layouts.FIRST_TICKS)`). All can be
written: `encode(message, layouts.V4A)`. The number 4 does not identify a layout: the descriptors say
how many fixed frames there are, and the width of the message version says whether it is text.
Frames above the fixed ones of an early layout are read as the fields that were added later.
"""

FAULTS_NOTE = """\
For any bytes, `decode` returns a message or raises `RemoteError`, which has the reason, the field, its
frame, and what was expected and found.
"""

REASONS = {
    Reason.UNKNOWN_FORMAT: "the end of the message looks like none of the formats",
    Reason.UNKNOWN_VERSION: "the version frame has a number other than 4 or 5",
    Reason.TOO_FEW_FRAMES: "fewer frames than the format always has",
    Reason.TOO_SHORT: "a number has fewer bytes than its type",
    Reason.OFFSET_OUT_OF_RANGE: "an offset, count or divisor leads outside the message",
    Reason.LENGTH_OUT_OF_RANGE: "a length in the meta frame leads outside it, or outside its entry",
    Reason.BAD_VALUE: "a value that the format does not allow",
    Reason.BAD_URI: "a router's address is no absolute URI, in a format where it must be",
    Reason.TOO_MANY_FRAMES: "more frames than the limit",
    Reason.TOO_MANY_ENTRIES: "more routing or callback entries than the limit",
    Reason.FRAME_TOO_LARGE: "a frame beyond the limit",
    Reason.MESSAGE_TOO_LARGE: "all frames together beyond the limit",
}

LIMITS = {
    "frames": "frames of a message",
    "entries": "routing entries, and as many callback entries",
    "frame_size": "bytes of one frame",
    "message_size": "bytes of all frames",
}


def type_of(row: Field) -> str:
    """Return the name of a row's type."""
    if row.type is Type.VERSION_TEXT:
        return "bytes (version text)"
    if row.type is Type.URI:
        return "text (URI)"
    return str(row.type.value)


def rows(fields: Iterable[Field | Entries], place: str) -> Iterator[str]:
    """Yield the lines of a table; the words of a packed frame follow it."""
    yield f"| {'frame' if place else 'row'} | field | type | empty | meaning |"
    yield "|---|---|---|---|---|"
    for row in fields:
        at = f"`{place}{row.position}`"
        if isinstance(row, Entries):
            yield f"| {at} | `{row.name}` entries | | | {row.meaning} |"
            continue
        star = " *" if row.selector else ""
        empty = "" if row.empty is Empty.NEVER else row.empty.value
        yield f"| {at} | `{row.name}`{star} | {type_of(row)} | {empty} | {row.meaning} |"
        for number, word in enumerate(row.words):
            if word.name.startswith("reserved."):
                continue
            star = " *" if word.selector else ""
            yield f"| bits {16 * number + 1}-{16 * number + 16} | `{word.name}`{star} | u16 | | {word.meaning} |"


def notes(fields: Iterable[Field | Entries]) -> Iterator[str]:
    """Yield the errata of a table."""
    found = [row for row in fields if isinstance(row, Field) and row.erratum]
    if found:
        yield "Notes:"
        yield ""
        yield from (f"- `{row.name}`: {row.erratum}." for row in found)
        yield ""


def entry_tables(groups: Iterable[Entries], place: str) -> Iterator[str]:
    """Yield the table of each group of entries."""
    for entries in groups:
        yield f"`{entries.name}`: {entries.meaning}."
        yield ""
        yield from rows(entries.fields, place)
        yield ""


def with_extension(layout: Layout, fields: Sequence[Field | Entries]) -> Sequence[Field | Entries]:
    """Return the rows of a table, with the one that may follow them."""
    return fields if layout.extension is None else [*fields, layout.extension]


def section(layout: Layout) -> Iterator[str]:
    """Describe one format."""
    yield f"## {layout.name}"
    yield ""
    yield f"{layout.title}."
    yield ""
    if layout.meta:
        yield META_NOTE
        yield from rows(with_extension(layout, layout.meta), "")
        yield ""
        yield from entry_tables((row for row in layout.meta if isinstance(row, Entries)), "")
        yield from notes(layout.meta)
        return
    yield from rows(with_extension(layout, layout.fixed), "n-")
    yield ""
    yield from notes(layout.fixed)
    yield ENTRIES_NOTE
    yield "In an entry, `+0` is the bottom frame and `+1` the one above it."
    yield ""
    yield from entry_tables(layout.entries, "+")
    if layout.has_body_offset:
        yield BODY_NOTE


def places() -> Iterator[str]:
    """Show which fields of a message each format has a place for."""
    formats = list(layouts.CANONICAL.values())
    carried = {layout.name: set(layout.names()) for layout in formats}
    yield "## What each format carries"
    yield ""
    yield "A field that a format has no place for is left out in writing, and has its default after reading."
    yield ""
    yield f"| field | {' | '.join(carried)} |"
    yield "|---|" + "---|" * len(formats)
    for name in Message.__struct_fields__[:-1]:
        yield f"| `{name}` | {' | '.join('yes' if name in names else '' for names in carried.values())} |"
    yield ""
    yield "FIRST's callback entries have no partition either. `socket_identity` is written in every format, as frame 0,"
    yield "but given back by V6 only; it is no part of a message's equality."
    yield ""


def dialects() -> Iterator[str]:
    """List the layouts that are read, and written on request, besides the four."""
    canonical = set(layouts.CANONICAL.values())
    yield "## Dialects"
    yield ""
    yield DIALECTS_NOTE
    yield "| layout | fixed frames | last frame | what it is |"
    yield "|---|---|---|---|"
    for layout in layouts.LAYOUTS.values():
        if layout not in canonical:
            last = f"`{layout.number.hex(' ')}`" if layout.number else "the body"
            yield f"| {layout.name} | {len(layout.fixed)} | {last} | {layout.title} |"
    yield ""


def faults() -> Iterator[str]:
    """List the reason codes and the limits."""
    yield "## What can be wrong"
    yield ""
    yield FAULTS_NOTE
    yield "| reason | when |"
    yield "|---|---|"
    yield from (f"| `{reason.value}` | {REASONS[reason]} |" for reason in Reason)
    yield ""
    yield "| limit | default | of |"
    yield "|---|---|---|"
    yield from (f"| `{name}` | {getattr(DEFAULT_LIMITS, name):,} | {meaning} |" for name, meaning in LIMITS.items())
    yield ""
    yield "The same limits hold for writing, with `LocalError`: Hopline never sends what it would not read."


def generate() -> str:
    """Return the whole page."""
    lines = [INTRODUCTION]
    for layout in layouts.CANONICAL.values():
        lines += section(layout)
    lines += [EXTENSION_NOTE, *places(), *dialects(), *faults()]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(generate(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(Path.cwd())}")
