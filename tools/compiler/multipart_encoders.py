"""Emit the encoders of the formats that spread their headers over frames."""

from __future__ import annotations

from collections.abc import Iterator

from hopline.wire.layout import Empty, Entries, Field, Layout, Type
from hopline.wire.layouts import V6
from tools.compiler.emit import ENTRY_CLASS, indented, local, names_of, remembered, word_value, write_checks
from tools.compiler.multipart_decoders import table_name


def write_value(layout: Layout, row: Field) -> str:
    """Return the expression for one fixed frame."""
    name = row.name
    if name == "version.wire_format":
        return repr(layout.number)
    if row.empty is Empty.ALWAYS:
        return 'b""'
    if row.words:
        return f"_pack_words({', '.join(word_value(word.name) for word in row.words)})"
    if row.empty is Empty.NO_ENTRIES:
        return f'_pack_i32({local(name)}) if {local(name)} else b""'
    pack = {Type.U16: "_pack_u16", Type.I32: "_pack_i32", Type.I64: "_pack_i64"}.get(row.type)
    value = f"message.{name}"
    if row.values is not None:
        return f"{table_name(row, inverse=True)}[{value}]"
    if row.scale != 1 or row.minimum is not None:
        value = local(name)
    elif row.type is Type.TEXT:
        return f"{value}.encode()"
    elif row.type is Type.VERSION_TEXT:
        return f"COMMON_VERSION_TEXTS[{value}]"
    return f"{pack}({value})" if pack else value


def list_writer(layout: Layout, entries: Entries) -> Iterator[str]:
    """Emit the function that gives the frames of all entries of a group."""
    body: list[str] = []
    parts: list[str] = []
    for row in reversed(entries.fields):
        value = f"entry.{row.name}"
        if row.type is Type.U16:
            value = f"_pack_u16({value})"
        elif row.type is Type.VERSION_TEXT:
            value = f"COMMON_VERSION_TEXTS[{value}]"
        elif row.type is Type.URI:
            body += [f'if not {value}.startswith(USUAL_SCHEMES) or {value}[-1] == "/":', "    raise FastPathMiss"]
            value = f"{value}.encode()"
        elif row.type is Type.TEXT:
            value = f"{value}.encode()"
        parts.append(value)
    name = entries.name
    own = own_frames(layout, entries)
    result = ", ".join(["tuple[bytes, ...]", *["bytes"] * len(own)])
    yield from remembered(f"_{name}_frames({name}: tuple[{ENTRY_CLASS[name]}, ...]) -> tuple[{result}]")
    yield f'    """Return the frames of the {name} entries, and the frames that describe only these."""'
    yield "    frames: list[bytes] = []"
    yield f"    for entry in {name}:"
    yield from indented([*body, f"frames += ({', '.join(parts)})"], 2)
    yield '    if len(b"".join(frames)) > LARGEST_USUAL_LIST or not {bytes}.issuperset(map(type, frames)):'
    yield "        raise FastPathMiss"
    if own:
        yield f"    {name}_count = len({name})"
    if any(f"{name}.offset" in names_of(row) for row in own):
        yield f"    {name}_offset = {len(layout.fixed) + 1} if {name}_count else 0"
    yield f"    return ({', '.join(['tuple(frames)', *(write_value(layout, row) for row in own)])},)"


def own_frames(layout: Layout, entries: Entries) -> list[Field]:
    """Return the rows that follow from the number of one group's entries; its offset only for the lowest group."""
    known = {f"{entries.name}.count", f"{entries.name}.divisor", "reserved.2", "reserved.3"}
    if entries is layout.entries[0]:
        known.add(f"{entries.name}.offset")
    count = f"{entries.name}.count"
    offset = f"{entries.name}.offset"
    return [
        row for row in layout.fixed if known.issuperset(names_of(row)) and {count, offset}.intersection(names_of(row))
    ]


def encode_multipart(layout: Layout) -> Iterator[str]:
    """Emit the encoder of a format that spreads its headers over frames."""
    yield "def encode(message: Message, limits: Limits) -> list[bytes]:"
    yield f'    """Write a message of the usual shape as {layout.name}."""'
    body = [
        "(body,) = message.bodies",
        "socket_identity = message.socket_identity",
        *(f"{entries.name} = message.{entries.name}" for entries in layout.entries),
        *(f"{entries.name}_count = len({entries.name})" for entries in layout.entries),
    ]
    counts = [f"{entries.name}_count" for entries in layout.entries]
    body += [f"if {' or '.join(f'{count} > MOST_USUAL_ENTRIES' for count in counts)}:", "    raise FastPathMiss"]
    made: dict[str, str] = {}
    for entries in layout.entries:
        frames = {row.name: f"{local(row.name)}_frame" for row in own_frames(layout, entries)}
        made |= frames
        targets = ", ".join([f"{entries.name}_frames", *frames.values()])
        body.append(f"({targets},) = _{entries.name}_frames({entries.name})")
    next_offset = str(len(layout.fixed) + 1)
    for entries in layout.entries:
        if entries is not layout.entries[0]:
            body.append(f"{entries.name}_offset = {next_offset} if {entries.name}_count else 0")
        next_offset += f" + {entries.divisor} * {entries.name}_count"
    body.append(f"body_offset = {next_offset}" if layout.has_body_offset else f"total = {next_offset} + 1")
    for row in layout.fixed:
        name = local(row.name)
        if row.scale != 1:
            body += [f"{name}, rest = divmod(message.{name}, {row.scale})", "if rest:", "    raise FastPathMiss"]
        elif row.minimum is not None:
            body += [f"{name} = message.{name}", f"if {name} < {row.minimum}:", "    raise FastPathMiss"]
    rows = [row for row in reversed(layout.fixed) if row.name != "bodies"]
    body += ["headers = (", *indented(f"{made.get(row.name) or write_value(layout, row)}," for row in rows), ")"]
    total = "body_offset + 2" if layout.has_body_offset else "total"
    body += write_checks(
        'len(b"".join(headers)) + len(body) + len(socket_identity) + 2 * LARGEST_USUAL_LIST > limits.usual_size',
        f"{total} > limits.usual_frames",
        "body.__class__ is not bytes",
        "socket_identity.__class__ is not bytes",
        *([] if layout.has_body_offset else [f"body[:{len(V6.number)}] == {V6.number!r}"]),  # it may be a meta frame
    )
    lists = [f"*{entries.name}_frames," for entries in reversed(layout.entries)]
    parts = ["body,", *lists, "*headers,"] if layout.has_body_offset else [*lists, "*headers,", "body,"]
    written = ["[", *indented(["socket_identity,", 'b"",', *parts]), "]"]
    if layout.extension is None:
        body += ["return " + written[0], *written[1:]]
    else:
        body += ["frames = " + written[0], *written[1:]]
        body += [
            'if message.extension != b"":',
            "    insert_extension(frames, message.extension, limits)",
            "return frames",
        ]
    yield from indented(body)
