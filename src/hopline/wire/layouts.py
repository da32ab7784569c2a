"""The formats, frame by frame: the one place where they are written down.

The codecs are compiled from these tables (`tools/compiler`), the careful reader and writer walk them, and the
dump and `docs/reference/wire-formats.md` are made from them. A new field is one new row.
"""

from __future__ import annotations

from dataclasses import replace

from hopline.message import WireFormat
from hopline.wire.layout import Empty, Entries, Field, Layout, Type, Word

TICKS_PER_MILLISECOND = 10_000


def _extension(position: int) -> Field:
    """Make the row of what no document has: Hopline's extension, at the place where the documents let a format grow."""
    return Field(
        position,
        "extension",
        Type.BYTES,
        "Hopline's extension: a MessagePack map of names to plain values, which every other reader ignores",
        Empty.ABSENT,
    )


_CALLBACK_NODE_MEANING = "node that a callback is sent to; becomes the receiver node when a callback point matches"
_CALLBACK_MEANING = "hub or actor that a callback is sent to; becomes the receiver when a callback point matches"
_CORRELATION_MEANING = "the flow that the message belongs to, the same on all messages of it"
_RECEIVER_MEANING = "the one actor or hub that must get it; empty for whoever handles it"
_NODE_MEANING = "the one node that must get it; empty for any"
_ROUTERS_MEANING = "the routers that sent it on, oldest first; a router appends itself at the end"
_CALLBACKS_MEANING = "the messages of the flow that somebody waits for"


def _routing(uri: Type) -> Entries:
    return Entries(
        "routing",
        (
            Field(0, "identity", Type.BYTES, "the router's node identity", Empty.UNSET),
            Field(1, "uri", uri, "where the router listens", Empty.UNSET),
        ),
        _ROUTERS_MEANING,
    )


# --------------------------------------------------------------------------------------------------------------------
# The format of the first document: unversioned; the body comes last.
# --------------------------------------------------------------------------------------------------------------------

_FIRST_ROWS = (
    Field(1, "bodies", Type.BYTES, "the content of the message", Empty.UNSET),
    Field(2, "frame.delimiter", Type.BYTES, "stands between the headers and the body", Empty.ALWAYS),
    Field(
        3,
        "ttl_ticks",
        Type.I64,
        "remaining lifetime in milliseconds, 0 for no limit",
        scale=TICKS_PER_MILLISECOND,
        erratum="the document says milliseconds; the reference of that day wrote ticks of 100 ns (dialect FIRST_TICKS)",
    ),
    Field(4, "callback_receiver_identity", Type.BYTES, _CALLBACK_MEANING, Empty.UNSET),
    Field(
        5,
        "callback_point.offset",
        Type.I32,
        "where the last callback entry ends, counted from the end",
        Empty.NO_ENTRIES,
        erratum="listed twice in the document; the row of a single callback message id is a leftover",
    ),
    Field(
        6,
        "callback_point.count",
        Type.I32,
        "number of callback entries",
        Empty.NO_ENTRIES,
        erratum="listed twice in the document; the row of a single callback version is a leftover",
    ),
    Field(7, "correlation_id", Type.BYTES, _CORRELATION_MEANING, Empty.UNSET),
    Field(
        8,
        "distribution",
        Type.I32,
        "0 unicast, 1 broadcast; nothing else is allowed",
        values={0: 0, 1: 1},
        selector=True,
    ),
    Field(
        9,
        "receiver_identity",
        Type.BYTES,
        _RECEIVER_MEANING,
        Empty.UNSET,
        selector=True,
        erratum="called a socket identity in the document; it is a routing key, the socket's is frame 0",
    ),
    Field(10, "identity", Type.BYTES, "the kind of message, with its version", selector=True, empty=Empty.UNSET),
    Field(
        11,
        "version",
        Type.VERSION_TEXT,
        "version of the kind, as text: 1 is written 1.0",
        Empty.UNSET,
        selector=True,
    ),
    Field(
        12,
        "trace_options",
        Type.I64,
        "0 none, 2 routing; nothing else is allowed",
        values={0: 0, 2: 1},
        erratum="the flag for routing is 2 here and 1 in every later format",
    ),
    Field(
        13,
        "routing.offset",
        Type.I32,
        "where the last routing entry ends, counted from the end",
        Empty.NO_ENTRIES,
    ),
    Field(14, "routing.count", Type.I32, "number of routing entries", Empty.NO_ENTRIES),
    Field(15, "hops", Type.I32, "how often it was sent on to another node", minimum=0),
)

_FIRST_ENTRIES = (
    Entries(
        "callback_point",
        (
            Field(0, "identity", Type.BYTES, "kind of the awaited message", Empty.UNSET),
            Field(1, "version", Type.VERSION_TEXT, "its version, as text", Empty.UNSET),
        ),
        _CALLBACKS_MEANING,
    ),
    _routing(Type.URI),
)

FIRST = Layout(
    "FIRST", WireFormat.FIRST, "First format, unversioned", _FIRST_ROWS, _FIRST_ENTRIES, several_bodies=False
)

FIRST_TICKS = replace(
    FIRST,
    name="FIRST_TICKS",
    title="First format as the reference wrote it: TTL in ticks of 100 ns",
    fixed=tuple(
        replace(row, scale=1, meaning="remaining lifetime in ticks of 100 ns, 0 for no limit")
        if row.name == "ttl_ticks"
        else row
        for row in _FIRST_ROWS
    ),
)

# --------------------------------------------------------------------------------------------------------------------
# V4 and V5: one table in two documents, under two headings.
# --------------------------------------------------------------------------------------------------------------------

_V5_ROWS = (
    Field(
        1,
        "version.wire_format",
        Type.U16,
        "number of the format",
        erratum="no width in the document: V5 is written with two bytes, V4 with four; readers take both, "
        "and the number from the first two",
    ),
    Field(
        2,
        "body",
        Type.WORDS,
        "where the body is",
        words=(
            Word("body.offset", "position of the first body frame, counted from the end"),
            Word("body.count", "number of body frames"),
            Word("reserved.2", "ignored"),
            Word("reserved.3", "ignored"),
        ),
        erratum="bits count from the lowest, and the frame always has eight bytes; "
        "with several body frames the document's 'first' may be the top or the bottom one, and both are read",
    ),
    Field(
        3,
        "ttl_ticks",
        Type.I64,
        "remaining lifetime in ticks of 100 ns, 0 for no limit",
        erratum="no unit in the document",
    ),
    Field(4, "correlation_id", Type.BYTES, _CORRELATION_MEANING, Empty.UNSET),
    Field(
        5,
        "options",
        Type.WORDS,
        "how to send and what to record",
        words=(
            Word("trace_options", "1 records routing"),
            Word("distribution", "0 unicast, 1 broadcast", selector=True),
            Word("reserved.2", "ignored"),
            Word("reserved.3", "ignored"),
        ),
        erratum="the document's third pattern, direct, is unicast with a receiver node",
    ),
    Field(6, "identity", Type.BYTES, "the kind of message, with version and partition", Empty.UNSET, selector=True),
    Field(7, "version", Type.U16, "version of the kind", selector=True),
    Field(8, "partition", Type.BYTES, "partition of the kind", Empty.UNSET, selector=True),
    Field(9, "receiver_node_identity", Type.BYTES, _NODE_MEANING, Empty.UNSET, selector=True),
    Field(10, "callback_receiver_identity", Type.BYTES, _CALLBACK_MEANING, Empty.UNSET),
    Field(11, "receiver_identity", Type.BYTES, _RECEIVER_MEANING, Empty.UNSET, selector=True),
    Field(
        12,
        "callbacks",
        Type.WORDS,
        "where the callback entries are",
        words=(
            Word("callback_point.offset", "where the last callback entry ends, counted from the end; 0 without"),
            Word("callback_point.count", "number of callback entries"),
            Word("callback_point.divisor", "frames for one callback entry, 3 even without any"),
            Word("reserved.3", "ignored"),
        ),
    ),
    Field(
        13,
        "routers",
        Type.WORDS,
        "where the routing entries are",
        words=(
            Word("routing.offset", "where the last routing entry ends, counted from the end; 0 without"),
            Word("routing.count", "number of routing entries"),
            Word("routing.divisor", "frames for one routing entry, 2 even without any"),
            Word("hops", "how often it was sent on to another node"),
        ),
    ),
    Field(
        14,
        "signature",
        Type.BYTES,
        "keyed hash over identity, version, partition, body and callback receiver",
        Empty.UNSET,
        erratum="what is covered is not in the document; in summer 2016 it was the whole stream buffer "
        "(GetBuffer), zero bytes behind the content included",
    ),
    Field(15, "domain", Type.TEXT, "security domain whose key signs", Empty.UNSET),
    Field(16, "callback_key", Type.I64, "the waiting promise, by the number that its hub gave it; 0 for none"),
    Field(17, "callback_receiver_node_identity", Type.BYTES, _CALLBACK_NODE_MEANING, Empty.UNSET),
)


def _callbacks(version: Type) -> Entries:
    return Entries(
        "callback_point",
        (
            Field(0, "identity", Type.BYTES, "kind of the awaited message", Empty.UNSET),
            Field(1, "version", version, "its version", Empty.UNSET if version is Type.VERSION_TEXT else Empty.NEVER),
            Field(2, "partition", Type.BYTES, "its partition", Empty.UNSET),
        ),
        _CALLBACKS_MEANING,
    )


V5 = Layout(
    "V5",
    WireFormat.V5,
    "V5, as the document headed V5",
    _V5_ROWS,
    (_callbacks(Type.U16), _routing(Type.TEXT)),
    number=b"\x05\x00",
    extension=_extension(len(_V5_ROWS) + 1),
)

# The commit of the document headed V4 already writes the number 5; two weeks before it was 4, with this same layout.
V4 = Layout(
    "V4",
    WireFormat.V4,
    "V4, as the document headed V4",
    _V5_ROWS,
    (_callbacks(Type.U16), _routing(Type.URI)),
    number=b"\x04\x00\x00\x00",
    extension=_extension(len(_V5_ROWS) + 1),
)

V5_INT32 = replace(
    V4,
    name="V5_INT32",
    wire_format=WireFormat.V5_INT32,
    title="V4 with the number 5 in four bytes, as the reference wrote it from December 2016 to 2018",
    number=b"\x05\x00\x00\x00",
)


def _early(name: str, fixed_frames: int, written: str, *, version: Type) -> Layout:
    """Make one of the layouts that said 4 before the document did: its first frames from the end, and no more."""
    rows = tuple(
        replace(row, type=version, empty=Empty.UNSET if version is Type.VERSION_TEXT else row.empty)
        if row.name == "version"
        else row
        for row in V4.fixed[:fixed_frames]
    )
    kind = "text" if version is Type.VERSION_TEXT else "a number"
    title = f"V4 as written {written}: {fixed_frames} fixed frames, message version is {kind}"
    entries = (_callbacks(version), _routing(Type.URI))
    return replace(V4, name=name, title=title, fixed=rows, entries=entries, several_bodies=False, extension=None)


V4A = _early("V4A", 13, "from May to July 2016", version=Type.VERSION_TEXT)
V4B = _early("V4B", 14, "in July 2016", version=Type.VERSION_TEXT)
V4C = _early("V4C", 15, "from July to October 2016", version=Type.VERSION_TEXT)
V4D = _early("V4D", 15, "in October 2016", version=Type.U16)
V4E = _early("V4E", 16, "from October to December 2016", version=Type.U16)

# --------------------------------------------------------------------------------------------------------------------
# V6: one meta frame. A field of bytes or text has its length in front (i32); so has an entry, not counting itself.
# --------------------------------------------------------------------------------------------------------------------

_V6_META = (
    Field(1, "version.wire_format", Type.U16, "number of the format", erratum="a heading in its document says V4"),
    Field(2, "partition", Type.BYTES, "partition of the kind", Empty.UNSET, selector=True),
    Field(3, "version", Type.U16, "version of the kind", selector=True),
    Field(4, "identity", Type.BYTES, "the kind of message, with version and partition", Empty.UNSET, selector=True),
    Field(5, "receiver_identity", Type.BYTES, _RECEIVER_MEANING, Empty.UNSET, selector=True),
    Field(6, "receiver_node_identity", Type.BYTES, _NODE_MEANING, Empty.UNSET, selector=True),
    replace(_V5_ROWS[4], position=7, erratum=""),
    Field(8, "callback_receiver_node_identity", Type.BYTES, _CALLBACK_NODE_MEANING, Empty.UNSET),
    Field(9, "callback_key", Type.I64, "the waiting promise, by the number that its hub gave it; 0 for none"),
    Field(
        10,
        "domain",
        Type.TEXT,
        "security domain whose key signs",
        Empty.UNSET,
        erratum="the length counts bytes; a variant of the reference's writer counts characters, and fails on others",
    ),
    Field(11, "signature", Type.BYTES, _V5_ROWS[13].meaning, Empty.UNSET),
    Field(
        12,
        "routers",
        Type.WORDS,
        "how many routers follow",
        words=(
            Word("routing.count", "number of routing entries"),
            Word("hops", "how often it was sent on to another node"),
            Word("reserved.2", "ignored"),
            Word("reserved.3", "ignored"),
        ),
    ),
    Entries(
        "routing",
        (
            Field(1, "uri", Type.TEXT, "where the router listens", Empty.UNSET),
            Field(2, "identity", Type.BYTES, "the router's node identity", Empty.UNSET),
        ),
        _ROUTERS_MEANING,
        position=13,
    ),
    Field(14, "callback_point.count", Type.U16, "number of callback entries"),
    Entries(
        "callback_point",
        (
            Field(1, "partition", Type.BYTES, "its partition", Empty.UNSET),
            Field(2, "version", Type.U16, "its version"),
            Field(3, "identity", Type.BYTES, "kind of the awaited message", Empty.UNSET),
        ),
        _CALLBACKS_MEANING,
        position=15,
    ),
    Field(16, "callback_receiver_identity", Type.BYTES, _CALLBACK_MEANING, Empty.UNSET),
    Field(17, "correlation_id", Type.BYTES, _CORRELATION_MEANING, Empty.UNSET),
    Field(18, "ttl_ticks", Type.I64, "remaining lifetime in ticks of 100 ns, 0 for no limit"),
    replace(_V5_ROWS[1], position=19, erratum=""),
)

V6 = Layout(
    "V6",
    WireFormat.V6,
    "V6, what the reference uses today",
    (Field(1, "frame.meta", Type.BYTES, "every header, in one frame"),),
    meta=_V6_META,
    number=b"\x06\x00",
    extension=_extension(len(_V6_META) + 1),
)

# The formats of the documents; what a format means when nothing else is said; and all that can be read or written.
CANONICAL = {layout.wire_format: layout for layout in (FIRST, V4, V5, V6)}
BY_FORMAT = {layout.wire_format: layout for layout in (FIRST, V4, V5_INT32, V5, V6)}
LAYOUTS = {layout.name: layout for layout in (FIRST, FIRST_TICKS, V4A, V4B, V4C, V4D, V4E, V4, V5_INT32, V5, V6)}
