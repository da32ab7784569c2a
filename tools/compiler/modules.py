"""Put the emitted functions into modules."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from hopline.wire.layout import Entries, Layout, Type
from hopline.wire.layouts import FIRST, FIRST_TICKS, V4, V5, V5_INT32, V6
from tools.compiler.emit import READERS, STRUCT
from tools.compiler.meta_entries import entries_reader, entries_writer
from tools.compiler.meta_frame import decode_meta, encode_meta, used_structs, view_meta
from tools.compiler.multipart_decoders import decode_multipart, table_name, view_multipart, view_structs
from tools.compiler.multipart_encoders import encode_multipart, list_writer

TARGET = Path(__file__).parent.parent.parent / "src" / "hopline" / "wire" / "compiled"
COMPILED = (FIRST, FIRST_TICKS, V4, V5_INT32, V5, V6)

NOTICE = """\
# Compiled from the tables in hopline.wire.layouts by tools/compiler.
# Do not edit: change the tables and run ``make generate``.
"""

IMPORTS = """
from __future__ import annotations

import struct
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
    usable_extension,
)
from hopline.wire.extension import insert_extension, written_extension
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
from hopline.wire.fast_path import (
    LARGEST_USUAL_LIST,
    MOST_USUAL_ENTRIES,
    REMEMBERED_LISTS,
    USUAL_SCHEMES,
    FastPathMiss,
    Uris,
)
from hopline.wire.view import RoutingView

_view = tuple.__new__
"""


def multipart_structs(layout: Layout) -> Iterator[str]:
    """Emit the structs that a multipart format needs."""
    types = {row.type for entries in layout.entries for row in entries.fields} | {row.type for row in layout.fixed[1:]}
    for kind in (Type.U16, Type.I32, Type.I64, Type.WORDS):
        if kind in types:
            name = READERS[kind]
            yield f'{name} = Struct("<{STRUCT[kind]}").unpack_from'
            yield f'_pack{name} = Struct("<{STRUCT[kind]}").pack'
    if any(row.name == "version" and row.type is Type.U16 for row in layout.fixed):
        yield '_version = Struct("<H").unpack'  # of no other width, which would be a text
    yield from view_structs(layout)
    if Type.URI in types:
        yield "_uris = Uris()"


def value_tables(layout: Layout) -> Iterator[str]:
    """Emit the tables of allowed values, in both directions."""
    for row in layout.fixed:
        if row.values is not None:
            frames = {wire.to_bytes(row.type.width, "little"): ours for wire, ours in row.values.items()}
            yield f"{table_name(row)} = {frames!r}"
            yield f"{table_name(row, inverse=True)} = { {ours: frame for frame, ours in frames.items()}!r}"


def module(layout: Layout) -> str:
    """Return the source of one format's module; unused imports are removed when it is formatted."""
    groups = layout.entries or [row for row in layout.meta if isinstance(row, Entries)]
    lines = [f'"""Fast paths for {layout.name}: {layout.title}."""', IMPORTS]
    lines.append(f"_FORMAT = WireFormat.{layout.wire_format.name}")
    lines += used_structs() if layout.meta else multipart_structs(layout)
    lines += value_tables(layout)
    for entries in groups:
        lines += ["", "", *(entries_writer(entries) if layout.meta else list_writer(layout, entries))]
    if layout.meta:
        lines += ["", "", *entries_reader(layout)]
    emitters = (
        (encode_meta, decode_meta, view_meta) if layout.meta else (encode_multipart, decode_multipart, view_multipart)
    )
    for emit in emitters:
        lines += ["", "", *emit(layout)]
    return NOTICE + "\n".join(lines) + "\n"


def package() -> str:
    """Return the source of the package's `__init__`."""
    lines = ['"""The fast paths, one module a layout, by the layout\'s name."""', ""]
    lines += [f"from hopline.wire.compiled import {', '.join(layout.name.lower() for layout in COMPILED)}", ""]
    for kind, result in (("encode", "ENCODERS"), ("decode", "DECODERS"), ("view", "VIEWS")):
        pairs = ", ".join(f"{layout.name!r}: {layout.name.lower()}.{kind}" for layout in COMPILED)
        lines.append(f"{result} = {{{pairs}}}")
    pairs = ", ".join(f"{layout.name!r}: {layout.name.lower()}.view_of_meta" for layout in COMPILED if layout.meta)
    lines.append(f"META_VIEWS = {{{pairs}}}")
    return NOTICE + "\n".join(lines) + "\n"


def generate() -> dict[Path, str]:
    """Return every file of the package, formatted."""
    sources = {f"{layout.name.lower()}.py": module(layout) for layout in COMPILED} | {"__init__.py": package()}
    return {TARGET / name: formatted(source) for name, source in sources.items()}


def formatted(source: str) -> str:
    """Put source into the house format."""
    for command in (["check", "--select", "I,F401", "--fix"], ["format"]):
        full = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(TARGET / "module.py"), "-"]
        source = subprocess.run(full, input=source, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return source
