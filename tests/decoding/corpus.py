"""Frames of every kind, good and bad, to hold the two decoders against each other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopline import Message, MessageIdentifier
from hopline.decoding.schemas import RECORD_COLUMNS, RECORDS
from hopline.message import ATTEMPT, RoutingEntry, write_extension
from hopline.wire import Layout, encode, layouts
from tests.wire import vectors
from tests.wire.mutations import mutate
from tests.wire.strategies import ENVELOPES, GARBAGE, messages

SEED = 5
EXAMPLES_PER_LAYOUT = 40
MUTATIONS_PER_MESSAGE = 25

TRACE_CONTEXT = write_extension({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})

Frames = list[bytes]
AnyFrames = Sequence[bytes | None] | None


def usual_messages() -> list[Message]:
    """Messages as networks send them: with and without lists, signature, partition."""
    node, hub = b"8f14e45f-ceea-467f-a9a9-1f2c3d4e5f60", b"\0008f14e45f-ceea-467f-a9a9-1f2c3d4e5f60"
    bare = Message.flow_start(b"ORDER", b"body", correlation_id=b"3c59dc04-8e88-4502-8e3a-9d1c2b3a4f5e")
    asking = bare.register_callback_point(
        node, hub, [MessageIdentifier(b"ORDER.DONE"), MessageIdentifier(b"KINO.EXCEPTION", 1, b"")], 4_711
    )
    travelled = asking.clone(
        hops=2,
        trace_options=1,
        ttl_ticks=299_990_000,
        routing=(RoutingEntry("tcp://10.0.0.1:9000", node), RoutingEntry("tcp://10.0.0.2:9000", b"\x80" * 16)),
    )
    signed = travelled.clone(
        signature=bytes(range(32)), domain="orders", partition=b"eu", version=300, bodies=(b"x" * 3_000,)
    )
    return [
        bare,
        asking,
        travelled,
        signed,
        bare.clone(identity=b"", correlation_id=b"", bodies=(b"",)),
        bare.clone(identity=b"\xff\xfe", correlation_id=bytes(16), distribution=1, callback_key=-(2**63)),
        bare.clone(identity=b"KINO.PING", ttl_ticks=-10_000, receiver_node_identity=node, receiver_identity=hub),
        bare.clone(extension=TRACE_CONTEXT),
        travelled.clone(extension=TRACE_CONTEXT),
        asking.clone(extension=write_extension({"traceparent": "00-0af7", ATTEMPT: 3})),
        bare.clone(extension=write_extension({ATTEMPT: 1 << 40, "state": "x"})),
        bare.clone(extension=write_extension({"state": ATTEMPT})),
    ]


def usual_frames(layout: Layout) -> list[Frames]:
    """Write the usual messages in a layout, with envelopes and, where possible, several bodies and unknown frames."""
    written = [encode(message, layout) for message in usual_messages()]
    written += [[b"some", b"envelope", *frames] for frames in written[:2]] + [frames[2:] for frames in written[:2]]
    if layout.several_bodies:
        written += [encode(message.clone(bodies=(b"one", b"", b"three")), layout) for message in usual_messages()[:4]]
    return written


def drawn(strategy: st.SearchStrategy[Frames], count: int) -> list[Frames]:
    """Draw some examples, the same ones every time."""
    found: list[Frames] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(frames: Frames) -> None:
        found.append(frames)

    collect()
    return found


@st.composite
def written(draw: st.DrawFn, layout: Layout) -> Frames:
    frames = encode(draw(messages(layout)), layout)
    return frames if draw(st.booleans()) else [*draw(ENVELOPES), *frames[2:]]


def good_frames() -> Iterator[Frames]:
    for kind in ("cases", "decode_cases"):
        yield from (case.frames for case in vectors.cases(kind))
    for layout in layouts.LAYOUTS.values():
        yield from usual_frames(layout)
        yield from drawn(written(layout), EXAMPLES_PER_LAYOUT)


def all_frames() -> list[AnyFrames]:
    """Good ones, damaged ones and garbage; and what no decoder sees."""
    rng = random.Random(SEED)
    good = list(good_frames())
    usual = [frames for layout in layouts.LAYOUTS.values() for frames in usual_frames(layout)]
    damaged = [mutate(frames, rng) for frames in usual for _ in range(MUTATIONS_PER_MESSAGE)]
    damaged += [mutate(frames, rng) for frames in good]
    nothing: list[AnyFrames] = [
        None,
        [None],
        [*usual[0][:3], None, *usual[0][3:]],
        [None, *usual[0]],
        [],
    ]
    return [*good, *damaged, *drawn(GARBAGE, 300), *nothing]


def records_of(all_frames: list[AnyFrames]) -> pa.RecordBatch:
    """Make records of nothing but `seq`, `ts` and frames, named as in the tables; `seq` is the place in the list."""
    count = len(all_frames)
    columns = {field.name: pa.nulls(count, field.type) for field in RECORDS} | {
        "seq": pa.array(range(count), pa.int64()),
        "ts": pa.array([1_700_000_000_000_000] * count, pa.timestamp("us", "UTC")),
        "frames": pa.array(all_frames, pa.list_(pa.binary())),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in RECORDS], [*RECORD_COLUMNS, "frames"])
