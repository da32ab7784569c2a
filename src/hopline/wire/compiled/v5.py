# Compiled from the tables in hopline.wire.layouts by tools/compiler.
# Do not edit: change the tables and run ``make generate``.
"""Fast paths for V5: V5, as the document headed V5."""

from __future__ import annotations

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
from hopline.wire.extension import insert_extension
from hopline.wire.fast_path import (
    LARGEST_USUAL_LIST,
    MOST_USUAL_ENTRIES,
    REMEMBERED_LISTS,
    FastPathMiss,
)
from hopline.wire.limits import Limits
from hopline.wire.view import RoutingView

_view = tuple.__new__

_FORMAT = WireFormat.V5
_u16 = Struct("<H").unpack_from
_pack_u16 = Struct("<H").pack
_i64 = Struct("<q").unpack_from
_pack_i64 = Struct("<q").pack
_words = Struct("<4H").unpack_from
_pack_words = Struct("<4H").pack
_version = Struct("<H").unpack
_distribution = Struct("<2xH4x").unpack
_hops = Struct("<6xH").unpack


@lru_cache(maxsize=REMEMBERED_LISTS)
def _callback_point_frames(callback_point: tuple[MessageIdentifier, ...]) -> tuple[tuple[bytes, ...], bytes]:
    """Return the frames of the callback_point entries, and the frames that describe only these."""
    frames: list[bytes] = []
    for entry in callback_point:
        frames += (entry.partition, _pack_u16(entry.version), entry.identity)
    if len(b"".join(frames)) > LARGEST_USUAL_LIST or not {bytes}.issuperset(map(type, frames)):
        raise FastPathMiss
    callback_point_count = len(callback_point)
    callback_point_offset = 18 if callback_point_count else 0
    return (
        tuple(frames),
        _pack_words(callback_point_offset, callback_point_count, 3, 0),
    )


@lru_cache(maxsize=REMEMBERED_LISTS)
def _routing_frames(routing: tuple[RoutingEntry, ...]) -> tuple[tuple[bytes, ...]]:
    """Return the frames of the routing entries, and the frames that describe only these."""
    frames: list[bytes] = []
    for entry in routing:
        frames += (entry.uri.encode(), entry.identity)
    if len(b"".join(frames)) > LARGEST_USUAL_LIST or not {bytes}.issuperset(map(type, frames)):
        raise FastPathMiss
    return (tuple(frames),)


def encode(message: Message, limits: Limits) -> list[bytes]:
    """Write a message of the usual shape as V5."""
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
        callbacks_frame,
    ) = _callback_point_frames(callback_point)
    (routing_frames,) = _routing_frames(routing)
    routing_offset = 18 + 3 * callback_point_count if routing_count else 0
    body_offset = 18 + 3 * callback_point_count + 2 * routing_count
    headers = (
        message.callback_receiver_node_identity,
        _pack_i64(message.callback_key),
        message.domain.encode(),
        message.signature,
        _pack_words(routing_offset, routing_count, 2, message.hops),
        callbacks_frame,
        message.receiver_identity,
        message.callback_receiver_identity,
        message.receiver_node_identity,
        message.partition,
        _pack_u16(message.version),
        message.identity,
        _pack_words(message.trace_options, message.distribution, 0, 0),
        message.correlation_id,
        _pack_i64(message.ttl_ticks),
        _pack_words(body_offset, 1, 0, 0),
        b"\x05\x00",
    )
    if (
        len(b"".join(headers)) + len(body) + len(socket_identity) + 2 * LARGEST_USUAL_LIST > limits.usual_size
        or body_offset + 2 > limits.usual_frames
        or body.__class__ is not bytes
        or socket_identity.__class__ is not bytes
    ):
        raise FastPathMiss
    frames = [
        socket_identity,
        b"",
        body,
        *routing_frames,
        *callback_point_frames,
        *headers,
    ]
    if message.extension != b"":
        insert_extension(frames, message.extension, limits)
    return frames


def decode(frames: Sequence[bytes], limits: Limits) -> Message:
    """Read a message of the usual V5 shape."""
    total = len(frames)
    (
        callback_receiver_node_identity,
        raw_callback_key,
        raw_domain,
        signature,
        raw_routers,
        raw_callbacks,
        receiver_identity,
        callback_receiver_identity,
        receiver_node_identity,
        partition,
        raw_version,
        identity,
        raw_options,
        correlation_id,
        raw_ttl_ticks,
        raw_body,
        _,
    ) = frames[-17:]
    (callback_key,) = _i64(raw_callback_key)
    domain = raw_domain.decode("utf-8", "replace")
    (routing_offset, routing_count, routing_divisor, hops) = _words(raw_routers)
    (callback_point_offset, callback_point_count, callback_point_divisor, _) = _words(raw_callbacks)
    (version,) = _version(raw_version)
    (trace_options, distribution, _, _) = _words(raw_options)
    (ttl_ticks,) = _i64(raw_ttl_ticks)
    (body_offset, body_count, _, _) = _words(raw_body)
    if body_count != 1 or not body_offset:
        raise FastPathMiss
    body = frames[-body_offset]
    extension = b""
    if (callback_point_offset if callback_point_count else routing_offset if routing_count else body_offset) != 18:
        if (
            (callback_point_count and callback_point_offset <= 18)
            or (routing_count and routing_offset <= 18)
            or body_offset <= 18
        ):
            raise FastPathMiss
        extension = usable_extension(frames[-18])
    size = len(b"".join(frames[:-body_offset])) + len(b"".join(frames[1 - body_offset :]))
    if not 18 <= total <= limits.usual_frames or size + len(body) > limits.usual_size or body.__class__ is not bytes:
        raise FastPathMiss
    callback_point: tuple[MessageIdentifier, ...] = ()
    if callback_point_count > 0:
        bottom = total - callback_point_offset
        at = bottom - (callback_point_count - 1) * callback_point_divisor
        if callback_point_divisor < 3 or at < 2 or bottom >= total:
            raise FastPathMiss
        callback_point_list = []
        while at <= bottom:
            callback_point_list.append(MessageIdentifier(frames[at], _u16(frames[at - 1])[0], frames[at - 2]))
            at += callback_point_divisor
        callback_point = tuple(callback_point_list)
    routing: tuple[RoutingEntry, ...] = ()
    if routing_count > 0:
        bottom = total - routing_offset
        at = bottom - (routing_count - 1) * routing_divisor
        if routing_divisor < 2 or at < 1 or bottom >= total:
            raise FastPathMiss
        routing_list = []
        while at <= bottom:
            routing_list.append(RoutingEntry(frames[at - 1].decode("utf-8", "replace"), frames[at]))
            at += routing_divisor
        routing = tuple(routing_list)
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
        b"",
        signature,
        domain,
        routing,
        extension,
        _FORMAT,
    )


def view(frames: Sequence[bytes]) -> RoutingView:
    """Read what a router needs of a V5 message."""
    (
        raw_routers,
        _,
        receiver_identity,
        _,
        receiver_node_identity,
        partition,
        raw_version,
        identity,
        raw_options,
        _,
        _,
        raw_body,
    ) = frames[-13:-1]
    (hops,) = _hops(raw_routers)
    (version,) = _version(raw_version)
    (distribution,) = _distribution(raw_options)
    if not raw_body:
        raise FastPathMiss
    return _view(
        RoutingView,
        (identity, version, partition, receiver_identity, receiver_node_identity, distribution, hops, _FORMAT, frames),
    )
