# Compiled from the tables in hopline.wire.layouts by tools/compiler.
# Do not edit: change the tables and run ``make generate``.
"""Fast paths for V6: V6, what the reference uses today."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from hopline.message import (
    Message,
    MessageIdentifier,
    RoutingEntry,
    WireFormat,
    usable_extension,
)
from hopline.wire.extension import written_extension
from hopline.wire.fast_path import (
    LARGEST_USUAL_LIST,
    MOST_USUAL_ENTRIES,
    REMEMBERED_LISTS,
    FastPathMiss,
)
from hopline.wire.layouts import V6
from hopline.wire.limits import Limits
from hopline.wire.shapes import (
    LARGEST_TEMPLATE,
    LARGEST_USUAL_SIZE,
    MOST_SHAPES,
    MOST_TEMPLATES,
    Cut,
    Heads,
    Packers,
    Templates,
    Values,
    cutter,
    head_reader,
    keep,
    sections,
)
from hopline.wire.view import RoutingView

_view = tuple.__new__

_FORMAT = WireFormat.V6
_STARTS = [slice(16 + sizes) for sizes in range(2 * LARGEST_USUAL_SIZE + 1)]
_heads: Heads = {}
_read_head = head_reader(
    V6,
    ("identity", "version", "partition", "receiver_identity", "receiver_node_identity", "distribution", "hops"),
    _heads,
)
_cut = cutter(V6, {})
_templates = Templates(V6)
_cuts: dict[int, Cut] = {}
_known: dict[Values, Values] = {}
_written: dict[Values, Values] = {}
_pack_head = Packers(sections(V6).head)
_pack_tail = Packers(sections(V6).tail)
_unpack_u32 = Struct("<I").unpack_from
_pack_u32 = Struct("<I").pack
_unpack_u16_u32 = Struct("<HI").unpack_from
_pack_u16_u32 = Struct("<HI").pack
_unpack_u16 = Struct("<H").unpack_from
_pack_u16 = Struct("<H").pack


@lru_cache(maxsize=REMEMBERED_LISTS)
def _routing_bytes(routing: tuple[RoutingEntry, ...]) -> bytes:
    """Write the routing entries."""
    parts: list[bytes] = []
    for entry in routing:
        uri = entry.uri.encode()
        identity = entry.identity
        content = b"".join(
            (
                _pack_u32(len(uri)),
                uri,
                _pack_u32(len(identity)),
                identity,
            )
        )
        parts += (_pack_u32(len(content)), content)
    written = b"".join(parts)
    if len(written) > LARGEST_USUAL_LIST:
        raise FastPathMiss
    return written


@lru_cache(maxsize=REMEMBERED_LISTS)
def _callback_point_bytes(callback_point: tuple[MessageIdentifier, ...]) -> bytes:
    """Write the callback_point entries."""
    parts: list[bytes] = [_pack_u16(len(callback_point))]
    for entry in callback_point:
        partition = entry.partition
        identity = entry.identity
        content = b"".join(
            (
                _pack_u32(len(partition)),
                partition,
                _pack_u16_u32(entry.version, len(identity)),
                identity,
            )
        )
        parts += (_pack_u32(len(content)), content)
    written = b"".join(parts)
    if len(written) > LARGEST_USUAL_LIST:
        raise FastPathMiss
    return written


@lru_cache(maxsize=REMEMBERED_LISTS)
def _entries(section: bytes, routing_count: int) -> tuple[tuple[RoutingEntry, ...], tuple[MessageIdentifier, ...]]:
    """Read the entries, whatever newer writers put behind their fields."""
    if len(section) > LARGEST_USUAL_LIST:
        raise FastPathMiss
    at = 0
    if routing_count > MOST_USUAL_ENTRIES:
        raise FastPathMiss
    routing = []
    for _ in range(routing_count):
        (size,) = _unpack_u32(section, at)
        at += 4
        end = at + size
        (entry_uri_size,) = _unpack_u32(section, at)
        at += 4
        entry_uri = section[at : (at := at + entry_uri_size)].decode("utf-8", "replace")
        (entry_identity_size,) = _unpack_u32(section, at)
        at += 4
        entry_identity = section[at : (at := at + entry_identity_size)]
        if at > end:
            raise FastPathMiss
        at = end
        routing.append(RoutingEntry(entry_uri, entry_identity))
    (callback_point_count,) = _unpack_u16(section, at)
    at += 2
    if callback_point_count > MOST_USUAL_ENTRIES:
        raise FastPathMiss
    callback_point = []
    for _ in range(callback_point_count):
        (size,) = _unpack_u32(section, at)
        at += 4
        end = at + size
        (entry_partition_size,) = _unpack_u32(section, at)
        at += 4
        entry_partition = section[at : (at := at + entry_partition_size)]
        (entry_version, entry_identity_size) = _unpack_u16_u32(section, at)
        at += 6
        entry_identity = section[at : (at := at + entry_identity_size)]
        if at > end:
            raise FastPathMiss
        at = end
        callback_point.append(MessageIdentifier(entry_identity, entry_version, entry_partition))
    if at != len(section):
        raise FastPathMiss
    return tuple(routing), tuple(callback_point)


def _learn_to_write(message: Message, same: Values) -> Values:
    """Return the function that packs such frames, the number of entries, and the bytes between."""
    routing = message.routing
    callback_point = message.callback_point
    routing_count = len(routing)
    callback_point_count = len(callback_point)
    if routing_count > MOST_USUAL_ENTRIES or callback_point_count > MOST_USUAL_ENTRIES:
        raise FastPathMiss
    partition = message.partition
    partition_size = len(partition)
    identity = message.identity
    identity_size = len(identity)
    receiver_identity = message.receiver_identity
    receiver_identity_size = len(receiver_identity)
    receiver_node_identity = message.receiver_node_identity
    receiver_node_identity_size = len(receiver_node_identity)
    callback_receiver_node_identity = message.callback_receiver_node_identity
    callback_receiver_node_identity_size = len(callback_receiver_node_identity)
    domain = message.domain.encode()
    domain_size = len(domain)
    signature = message.signature
    signature_size = len(signature)
    callback_receiver_identity = message.callback_receiver_identity
    callback_receiver_identity_size = len(callback_receiver_identity)
    correlation_id = message.correlation_id
    correlation_id_size = len(correlation_id)
    section = _routing_bytes(routing) + _callback_point_bytes(callback_point)
    meta = b"".join(
        (
            _pack_head[
                partition_size,
                identity_size,
                receiver_identity_size,
                receiver_node_identity_size,
                callback_receiver_node_identity_size,
                domain_size,
                signature_size,
            ](
                6,
                partition_size,
                partition,
                message.version,
                identity_size,
                identity,
                receiver_identity_size,
                receiver_identity,
                receiver_node_identity_size,
                receiver_node_identity,
                message.trace_options,
                message.distribution,
                callback_receiver_node_identity_size,
                callback_receiver_node_identity,
                message.callback_key,
                domain_size,
                domain,
                signature_size,
                signature,
                routing_count,
                message.hops,
            ),
            section,
            _pack_tail[callback_receiver_identity_size, correlation_id_size](
                callback_receiver_identity_size,
                callback_receiver_identity,
                correlation_id_size,
                correlation_id,
                message.ttl_ticks,
                2,
                1,
            ),
        )
    )
    template = _templates[
        partition_size,
        identity_size,
        receiver_identity_size,
        receiver_node_identity_size,
        callback_receiver_node_identity_size,
        domain_size,
        signature_size,
        len(section),
        callback_receiver_identity_size,
        correlation_id_size,
    ]
    (part_1, _, part_2, _, part_3, _, _, part_4) = template.unpack(meta)
    written = (template.pack, routing_count + callback_point_count, part_1, part_2, part_3, part_4)
    if len(meta) <= LARGEST_TEMPLATE:
        keep(_written, same, written, MOST_TEMPLATES)
    return written


def encode(message: Message, limits: Limits) -> list[bytes]:
    """Write a message of the usual shape as V6."""
    (body,) = message.bodies
    socket_identity = message.socket_identity
    signature = message.signature
    correlation_id = message.correlation_id
    same = (
        message.identity,
        message.version,
        message.partition,
        message.distribution,
        message.trace_options,
        message.hops,
        message.receiver_identity,
        message.receiver_node_identity,
        message.callback_point,
        message.callback_receiver_identity,
        message.callback_receiver_node_identity,
        message.domain,
        message.routing,
        len(signature),
        len(correlation_id),
    )
    pack, entries, part_1, part_2, part_3, part_4 = _written.get(same) or _learn_to_write(message, same)
    meta = pack(part_1, message.callback_key, part_2, signature, part_3, correlation_id, message.ttl_ticks, part_4)
    if message.extension != b"":
        meta += written_extension(message.extension)
    if (
        len(meta) + len(body) + len(socket_identity) > limits.usual_size
        or entries + 4 > limits.usual_frames
        or body.__class__ is not bytes
        or socket_identity.__class__ is not bytes
    ):
        raise FastPathMiss
    return [socket_identity, b"", body, meta]


def _learn_to_read(meta: bytes) -> tuple[Cut, Values]:
    """Return the function that unpacks such frames, and the values of all fields but the new ones."""
    (
        version_wire_format,
        partition_size,
        partition,
        version,
        identity_size,
        identity,
        receiver_identity_size,
        receiver_identity,
        receiver_node_identity_size,
        receiver_node_identity,
        trace_options,
        distribution,
        _,
        _,
        callback_receiver_node_identity_size,
        callback_receiver_node_identity,
        _,
        domain_size,
        raw_domain,
        signature_size,
        _,
        routing_count,
        hops,
        _,
        _,
        section,
        callback_receiver_identity_size,
        callback_receiver_identity,
        correlation_id_size,
        _,
        _,
        body_offset,
        body_count,
        _,
        _,
    ) = _cut(meta)
    if version_wire_format != 6 or body_count != 1 or not body_offset:
        raise FastPathMiss
    routing, callback_point = _entries(section, routing_count)
    template = _templates[
        partition_size,
        identity_size,
        receiver_identity_size,
        receiver_node_identity_size,
        callback_receiver_node_identity_size,
        domain_size,
        signature_size,
        len(section),
        callback_receiver_identity_size,
        correlation_id_size,
    ]
    cut = template.unpack_from
    known = (
        identity,
        version,
        partition,
        distribution,
        trace_options,
        hops,
        receiver_identity,
        receiver_node_identity,
        callback_point,
        callback_receiver_identity,
        callback_receiver_node_identity,
        raw_domain.decode("utf-8", "replace"),
        routing,
        body_offset,
        template.size,
    )
    if len(meta) <= LARGEST_TEMPLATE:
        (part_1, _, part_2, _, part_3, _, _, part_4) = cut(meta)
        keep(_cuts, len(meta) << 8 | meta[8 + meta[2]], cut, MOST_SHAPES)
        keep(_known, (cut, part_1, part_2, part_3, part_4), known, MOST_TEMPLATES)
    return cut, known


def decode(frames: Sequence[bytes], limits: Limits) -> Message:
    """Read a message of the usual V6 shape."""
    meta = frames[-1]
    try:
        cut = _cuts[len(meta) << 8 | meta[8 + meta[2]]]
        (part_1, callback_key, part_2, signature, part_3, correlation_id, ttl_ticks, part_4) = cut(meta)
        known = _known[cut, part_1, part_2, part_3, part_4]
    except KeyError:
        cut, known = _learn_to_read(meta)
        (part_1, callback_key, part_2, signature, part_3, correlation_id, ttl_ticks, part_4) = cut(meta)
    (
        identity,
        version,
        partition,
        distribution,
        trace_options,
        hops,
        receiver_identity,
        receiver_node_identity,
        callback_point,
        callback_receiver_identity,
        callback_receiver_node_identity,
        domain,
        routing,
        body_offset,
        end,
    ) = known
    extension = usable_extension(meta[end:]) if len(meta) > end else b""
    total = len(frames)
    # Nodes send four. To add them up one by one takes a third of the time.
    size = len(frames[0]) + len(frames[1]) + len(frames[2]) + len(meta) if total == 4 else sum(map(len, frames))
    body = frames[-body_offset]
    if (
        total > limits.frames
        or body.__class__ is not bytes
        or size > limits.usual_size
        or len(routing) > limits.entries
        or len(callback_point) > limits.entries
    ):
        raise FastPathMiss
    return Message(
        identity,
        version,
        partition,
        (body,),
        distribution,
        correlation_id,
        ttl_ticks,
        trace_options,
        hops,
        receiver_identity,
        receiver_node_identity,
        callback_point,
        callback_key,
        callback_receiver_identity,
        callback_receiver_node_identity,
        frames[0] if total > body_offset else b"",
        signature,
        domain,
        routing,
        extension,
        _FORMAT,
    )


def view(frames: Sequence[bytes]) -> RoutingView:
    """Read what a router needs of a V6 message."""
    return view_of_meta(frames, frames[-1])


def view_of_meta(frames: Sequence[bytes], meta: bytes) -> RoutingView:
    """Read what a router needs of a V6 message, whose last frame is known."""
    partition_size = meta[2]
    try:
        (cut, known_size_1, known_size_2, known_size_3, known_size_4, identity, version, partition) = _heads[
            meta[_STARTS[partition_size + meta[8 + partition_size]]]
        ]
        (receiver_identity, size_1, receiver_node_identity, distribution, size_2, size_3, size_4, hops) = cut(meta)
    except (KeyError, struct.error):
        return _view(RoutingView, (*_read_head(meta), _FORMAT, frames))
    if size_1 != known_size_1 or size_2 != known_size_2 or size_3 != known_size_3 or size_4 != known_size_4:
        return _view(RoutingView, (*_read_head(meta), _FORMAT, frames))
    return _view(
        RoutingView,
        (identity, version, partition, receiver_identity, receiver_node_identity, distribution, hops, _FORMAT, frames),
    )
