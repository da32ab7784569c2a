"""The recorded behaviour of the reference implementation, as test cases.

A file holds `cases` (a message, the frames that the writer gave, what the reader gave back) and `decode_cases` (frames
made by hand, and what the reader gave or which error it raised). Bytes are hex; long ones are compressed. The multipart
readers return both lists reversed: here they are turned back, because ours keep the writer's order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hopline import Message, MessageIdentifier
from hopline.cli.commands.decode.inputs import vector_bytes
from hopline.message import RoutingEntry, version_from_text
from hopline.wire import Layout, layouts

FOLDER = Path(__file__).parent.parent / "data" / "vectors"

VARIANTS = {
    "v4a": layouts.V4A,
    "v4b": layouts.V4B,
    "v4c": layouts.V4C,
    "v4d": layouts.V4D,
    "v4e": layouts.V4E,
    "v4f": layouts.V4,
    "v5_int32": layouts.V5_INT32,
}
FILES = {"first": layouts.FIRST_TICKS, "v5": layouts.V5, "v6": layouts.V6}


@dataclass(frozen=True)
class Case:
    """One vector, with the layout of the revision that it comes from."""

    layout: Layout
    raw: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.raw["name"])

    @property
    def frames(self) -> list[bytes]:
        return frames_of(self.raw["frames"])

    @property
    def fails(self) -> bool:
        return "decode_error" in self.raw

    @property
    def message(self) -> Message:
        """The message that the writer was given."""
        return message_of(self.raw["fields"], self.layout)

    @property
    def decoded(self) -> Message:
        """The message that the reader gave, lists in the writer's order."""
        message = message_of(self.raw["decoded"], self.layout, written=False)
        if self.layout.meta:
            return message
        return message.clone(routing=message.routing[::-1], callback_point=message.callback_point[::-1])


@cache
def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document


def cases(kind: str) -> Iterator[Case]:
    """Every case of a kind (`cases` or `decode_cases`), through all files and variants."""
    for name, layout in FILES.items():
        yield from (Case(layout, raw) for raw in load(name)[kind])
    for variant in load("v4")["variants"]:
        yield from (Case(VARIANTS[variant["variant"]], raw) for raw in variant[kind])


def label(case: Case) -> str:
    return f"{case.layout.name}-{case.name}"


def frames_of(raw: list[Any]) -> list[bytes]:
    return [bytes_of(frame) for frame in raw]


def bytes_of(raw: Any) -> bytes:
    """Read bytes as the vectors write them; a null reference is nothing."""
    return vector_bytes(raw, "vectors")


def version_of(raw: Any) -> int | bytes:
    return raw if isinstance(raw, int) else version_from_text(bytes.fromhex(raw))


def message_of(fields: dict[str, Any], layout: Layout, *, written: bool = True) -> Message:
    """Make a message of a vector's fields. Old writers were given a URI object, and wrote its absolute form."""
    trace_options = fields.get("trace_options", 0)
    if layout.wire_format == "first":
        trace_options = {0: 0, 2: 1}[trace_options]
    return Message(
        identity=bytes_of(fields["identity"]),
        version=version_of(fields["version"]),
        partition=bytes_of(fields.get("partition")),
        bodies=(bytes_of(fields["body"]),),
        distribution=fields.get("distribution", 0),
        correlation_id=bytes_of(fields.get("correlation_id")),
        ttl_ticks=fields.get("ttl_ticks", 0),
        trace_options=trace_options,
        hops=fields.get("hops", 0),
        receiver_identity=bytes_of(fields.get("receiver_identity")),
        receiver_node_identity=bytes_of(fields.get("receiver_node_identity")),
        callback_point=tuple(
            MessageIdentifier(
                bytes_of(entry["identity"]), version_of(entry["version"]), bytes_of(entry.get("partition"))
            )
            for entry in fields.get("callbacks", ())
        ),
        callback_key=fields.get("callback_key", 0),
        callback_receiver_identity=bytes_of(fields.get("callback_receiver_identity")),
        callback_receiver_node_identity=bytes_of(fields.get("callback_receiver_node_identity")),
        socket_identity=bytes_of(fields.get("socket_identity")),
        signature=bytes_of(fields.get("signature")),
        domain=fields.get("domain") or "",
        routing=tuple(
            RoutingEntry(
                entry["absolute_uri"] if written and "absolute_uri" in entry else entry["uri"],
                bytes_of(entry["identity"]),
            )
            for entry in fields.get("routes", ())
        ),
    )
