# Compiled from the tables in hopline.wire.layouts by tools/compiler.
# Do not edit: change the tables and run ``make generate``.
"""Fast paths for FIRST_TICKS: First format as the reference wrote it: TTL in ticks of 100 ns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from hopline.message import (
    COMMON_VERSION_TEXTS,
    COMMON_VERSIONS,
    Message,
    MessageIdentifier,
    RoutingEntry,
    WireFormat,
)
from hopline.wire.fast_path import (
    LARGEST_USUAL_LIST,
    MOST_USUAL_ENTRIES,
    REMEMBERED_LISTS,
    USUAL_SCHEMES,
    FastPathMiss,
    Uris,
)
from hopline.wire.limits import Limits
from hopline.wire.view import RoutingView

_view = tuple.__new__

_FORMAT = WireFormat.FIRST
_i32 = Struct("<i").unpack_from
_pack_i32 = Struct("<i").pack
_i64 = Struct("<q").unpack_from
_pack_i64 = Struct("<q").pack
_uris = Uris()
_DISTRIBUTION = {b"\x00\x00\x00\x00": 0, b"\x01\x00\x00\x00": 1}
_DISTRIBUTION_ON_WIRE = {0: b"\x00\x00\x00\x00", 1: b"\x01\x00\x00\x00"}
_TRACE_OPTIONS = {b"\x00\x00\x00\x00\x00\x00\x00\x00": 0, b"\x02\x00\x00\x00\x00\x00\x00\x00": 1}
_TRACE_OPTIONS_ON_WIRE = {0: b"\x00\x00\x00\x00\x00\x00\x00\x00", 1: b"\x02\x00\x00\x00\x00\x00\x00\x00"}


@lru_cache(maxsize=REMEMBERED_LISTS)
def _callback_point_frames(callback_point: tuple[MessageIdentifier, ...]) -> tuple[tuple[bytes, ...], bytes, bytes]:
    """Return the frames of the callback_point entries, and the frames that describe only these."""
    frames: list[bytes] = []
    for entry in callback_point:
        frames += (COMMON_VERSION_TEXTS[entry.version], entry.identity)
    if len(b"".join(frames)) > LARGEST_USUAL_LIST or not {bytes}.issuperset(map(type, frames)):
        raise FastPathMiss
    callback_point_count = len(callback_point)
    callback_point_offset = 16 if callback_point_count else 0
    return (
        tuple(frames),
        _pack_i32(callback_point_offset) if callback_point_offset else b"",
        _pack_i32(callback_point_count) if callback_point_count else b"",
    )


@lru_cache(maxsize=REMEMBERED_LISTS)
def _routing_frames(routing: tuple[RoutingEntry, ...]) -> tuple[tuple[bytes, ...], bytes]:
    """Return the frames of the routing entries, and the frames that describe only these."""
    frames: list[bytes] = []
    for entry in routing:
        if not entry.uri.startswith(USUAL_SCHEMES) or entry.uri[-1] == "/":
            raise FastPathMiss
        frames += (entry.uri.encode(), entry.identity)
    if len(b"".join(frames)) > LARGEST_USUAL_LIST or not {bytes}.issuperset(map(type, frames)):
        raise FastPathMiss
    routing_count = len(routing)
    return (
        tuple(frames),
        _pack_i32(routing_count) if routing_count else b"",
    )


def encode(message: Message, limits: Limits) -> list[bytes]:
    """Write a message of the usual shape as FIRST_TICKS."""
    (body,) = message.bodies
    socket_identity = message.socket_identity
    callback_point = message.callback_point
    routing = message.routing
    callback_point_count = len(callback_point)
    routing_count = len(routing)
    if callback_point_count > MOST_USUAL_ENTRIES or routing_count > MOST_USUAL_ENTRIES:
        raise FastPathMiss
    (
        callback_point_frames,
        callback_point_offset_frame,
        callback_point_count_frame,
    ) = _callback_point_frames(callback_point)
    (
        routing_frames,
        routing_count_frame,
    ) = _routing_frames(routing)
    routing_offset = 16 + 2 * callback_point_count if routing_count else 0
    total = 16 + 2 * callback_point_count + 2 * routing_count + 1
    hops = message.hops
    if hops < 0:
        raise FastPathMiss
    headers = (
        _pack_i32(hops),
        routing_count_frame,
        _pack_i32(routing_offset) if routing_offset else b"",
        _TRACE_OPTIONS_ON_WIRE[message.trace_options],
        COMMON_VERSION_TEXTS[message.version],
        message.identity,
        message.receiver_identity,
        _DISTRIBUTION_ON_WIRE[message.distribution],
        message.correlation_id,
        callback_point_count_frame,
        callback_point_offset_frame,
        message.callback_receiver_identity,
        _pack_i64(message.ttl_ticks),
        b"",
    )
    if (
        len(b"".join(headers)) + len(body) + len(socket_identity) + 2 * LARGEST_USUAL_LIST > limits.usual_size
        or total > limits.usual_frames
        or body.__class__ is not bytes
        or socket_identity.__class__ is not bytes
        or body[:2] == b"\x06\x00"
    ):
        raise FastPathMiss
    return [
        socket_identity,
        b"",
        *routing_frames,
        *callback_point_frames,
        *headers,
        body,
    ]


def decode(frames: Sequence[bytes], limits: Limits) -> Message:
    """Read a message of the usual FIRST_TICKS shape."""
    total = len(frames)
    (
        raw_hops,
        raw_routing_count,
        raw_routing_offset,
        raw_trace_options,
        raw_version,
        identity,
        receiver_identity,
        raw_distribution,
        correlation_id,
        raw_callback_point_count,
        raw_callback_point_offset,
        callback_receiver_identity,
        raw_ttl_ticks,
        delimiter,
        body,
    ) = frames[-15:]
    (hops,) = _i32(raw_hops)
    if hops < 0:
        raise FastPathMiss
    routing_count = _i32(raw_routing_count)[0] if raw_routing_count else 0
    routing_offset = _i32(raw_routing_offset)[0] if raw_routing_offset else 0
    trace_options = _TRACE_OPTIONS[raw_trace_options]
    version = COMMON_VERSIONS[raw_version]
    distribution = _DISTRIBUTION[raw_distribution]
    callback_point_count = _i32(raw_callback_point_count)[0] if raw_callback_point_count else 0
    callback_point_offset = _i32(raw_callback_point_offset)[0] if raw_callback_point_offset else 0
    (ttl_ticks,) = _i64(raw_ttl_ticks)
    if delimiter:
        raise FastPathMiss
    size = len(b"".join(frames[:-1]))
    if not 15 <= total <= limits.usual_frames or size + len(body) > limits.usual_size or body.__class__ is not bytes:
        raise FastPathMiss
    callback_point: tuple[MessageIdentifier, ...] = ()
    if callback_point_count > 0:
        bottom = total - callback_point_offset
        at = bottom - (callback_point_count - 1) * 2
        if at < 1 or bottom >= total:
            raise FastPathMiss
        callback_point_list = []
        while at <= bottom:
            callback_point_list.append(MessageIdentifier(frames[at], COMMON_VERSIONS[frames[at - 1]], b""))
            at += 2
        callback_point = tuple(callback_point_list)
    routing: tuple[RoutingEntry, ...] = ()
    if routing_count > 0:
        bottom = total - routing_offset
        at = bottom - (routing_count - 1) * 2
        if at < 1 or bottom >= total:
            raise FastPathMiss
        routing_list = []
        while at <= bottom:
            routing_list.append(RoutingEntry(_uris[frames[at - 1]], frames[at]))
            at += 2
        routing = tuple(routing_list)
    return Message(
        identity,
        version,
        b"",
        (body,),
        distribution,
        correlation_id,
        ttl_ticks,
        trace_options,
        hops,
        receiver_identity,
        b"",
        callback_point,
        0,
        callback_receiver_identity,
        b"",
        b"",
        b"",
        "",
        routing,
        b"",
        _FORMAT,
    )


def view(frames: Sequence[bytes]) -> RoutingView:
    """Read what a router needs of a FIRST_TICKS message."""
    (raw_hops, _, _, _, raw_version, identity, receiver_identity, raw_distribution, _, _, _, _, _, delimiter) = frames[
        -15:-1
    ]
    (hops,) = _i32(raw_hops)
    if hops < 0:
        raise FastPathMiss
    version = COMMON_VERSIONS[raw_version]
    distribution = _DISTRIBUTION[raw_distribution]
    if delimiter:
        raise FastPathMiss
    return _view(RoutingView, (identity, version, b"", receiver_identity, b"", distribution, hops, _FORMAT, frames))
