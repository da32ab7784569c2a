"""Emit the codec of V6, which has all headers in one frame."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count

from hopline.message import MessageIdentifier
from hopline.wire.layout import Entries, Field, Layout, Type
from hopline.wire.layouts import V6
from hopline.wire.shapes import NEW, SAME, SIZE, cut_names, is_reserved, kind_and_rest, sections, template_names
from tools.compiler.emit import (
    MESSAGE_ORDER,
    VIEW_ORDER,
    indented,
    local,
    message_arguments,
    names_of,
    word_value,
    write_checks,
)
from tools.compiler.meta_entries import entry_groups, meta_runs, struct_name

SIZE_WIDTH = 4
SHAPE_KEY = "len(meta) << 8 | meta[8 + meta[2]]"  # as in `hopline.wire.shapes`
NOT_ALIKE = (*NEW, "bodies", "socket_identity", "extension")


def used_structs() -> Iterator[str]:
    """Emit the structs that the V6 functions name."""
    groups = [row for row in V6.meta if isinstance(row, Entries)]
    inside = [run for entries in groups for _, run in meta_runs(entries.fields)]
    between = [run for _, run in meta_runs(sections(V6).entries) if run.code]
    yield kind_starts(V6)
    yield "_heads: Heads = {}"
    yield f"_read_head = head_reader(V6, {VIEW_ORDER!r}, _heads)"
    yield "_cut = cutter(V6, {})"
    yield "_templates = Templates(V6)"
    yield "_cuts: dict[int, Cut] = {}"
    yield "_known: dict[Values, Values] = {}"
    yield "_written: dict[Values, Values] = {}"
    yield "_pack_head = Packers(sections(V6).head)"
    yield "_pack_tail = Packers(sections(V6).tail)"
    for code in dict.fromkeys(["I", *(run.code for run in inside + between)]):
        yield f'{struct_name(code, pack=False)} = Struct("<{code}").unpack_from'
        yield f'{struct_name(code, pack=True)} = Struct("<{code}").pack'


def cut_targets(rows: Collection[Field], used: Collection[str]) -> list[str]:
    """Return the variables that a section is unpacked into: of a field of variable length, its size comes first."""
    targets = []
    for row in rows:
        if row.type.width:
            targets += [local(name) if name in used else "_" for name in names_of(row)]
        else:
            name = f"raw_{row.name}" if row.type is Type.TEXT else row.name
            targets += [f"{row.name}_size", name if row.name in used else "_"]
    return targets


def sizes_of(layout: Layout, section: str) -> str:
    """Return the expression for the sizes by which a template is looked up."""
    parts = sections(layout)
    head, tail = ([f"{row.name}_size" for row in rows if not row.type.width] for rows in (parts.head, parts.tail))
    return ", ".join([*head, f"len({section})", *tail])


def template_targets(layout: Layout, *, new: bool = True) -> list[str]:
    """Return the variables for the values of a template: the parts that stay the same, and with `new` the others."""
    part = count(1)
    names = (f"part_{next(part)}" if name == SAME else name for name in template_names(layout))
    return [name if new or name not in NEW else "_" for name in names]


def same_parts(layout: Layout) -> list[str]:
    """Return the variables for the parts of a template that stay the same."""
    return [name for name in template_targets(layout) if name not in NEW]


def same_fields(layout: Layout) -> list[str]:
    """Return the fields of a message that follow from the parts that stay the same."""
    return [name for name in MESSAGE_ORDER if name in layout.names() and name not in NOT_ALIKE]


def decode_meta(layout: Layout) -> Iterator[str]:
    """Emit the decoder of the meta frame: by a cached template, or by a new one."""
    yield from learn_to_read(layout)
    yield from ("", "")
    yield "def decode(frames: Sequence[bytes], limits: Limits) -> Message:"
    yield f'    """Read a message of the usual {layout.name} shape."""'
    targets = ", ".join(template_targets(layout))
    body = [
        "meta = frames[-1]",
        "try:",
        f"    cut = _cuts[{SHAPE_KEY}]",
        f"    ({targets}) = cut(meta)",
        f"    known = _known[cut, {', '.join(same_parts(layout))}]",
        "except KeyError:",
        "    cut, known = _learn_to_read(meta)",
        f"    ({', '.join(template_targets(layout))}) = cut(meta)",
        f"({', '.join(same_fields(layout))}, body_offset, end) = known",
        'extension = usable_extension(meta[end:]) if len(meta) > end else b""',
        "total = len(frames)",
        "# Nodes send four. To add them up one by one takes a third of the time.",
        "size = len(frames[0]) + len(frames[1]) + len(frames[2]) + len(meta) if total == 4 else sum(map(len, frames))",
        "body = frames[-body_offset]",
        "if (",
        "    total > limits.frames",
        "    or body.__class__ is not bytes",
        "    or size > limits.usual_size",
        *(f"    or len({entries.name}) > limits.entries" for entries in entry_groups(layout)),
        "):",
        "    raise FastPathMiss",
        "return Message(",
        *indented(
            line.replace("socket_identity", 'frames[0] if total > body_offset else b""')
            for line in message_arguments(set(layout.names()))
        ),
        ")",
    ]
    yield from indented(body)


def learn_to_read(layout: Layout) -> Iterator[str]:
    """Emit the function that reads a whole frame and caches its template."""
    yield "def _learn_to_read(meta: bytes) -> tuple[Cut, Values]:"
    yield '    """Return the function that unpacks such frames, and the values of all fields but the new ones."""'
    parts = sections(layout)
    groups = [entries.name for entries in entry_groups(layout)]
    same = same_fields(layout)
    wanted = {*same, "version.wire_format", f"{groups[0]}.count", "body.offset", "body.count"}
    targets = [*cut_targets(parts.head, wanted), "section", *cut_targets(parts.tail, wanted)]
    text = [row.name for row in (*parts.head, *parts.tail) if row.type is Type.TEXT]
    values = [f'raw_{name}.decode("utf-8", "replace")' if name in text else name for name in same]
    yield from indented(
        [
            f"({', '.join(targets)}) = _cut(meta)",
            f"if version_wire_format != {meta_number('version.wire_format')} or body_count != 1 or not body_offset:",
            "    raise FastPathMiss",
            f"{', '.join(groups)} = _entries(section, {groups[0]}_count)",
            f"template = _templates[{sizes_of(layout, 'section')}]",
            "cut = template.unpack_from",
            f"known = ({', '.join(values)}, body_offset, template.size)",
            "if len(meta) <= LARGEST_TEMPLATE:",
            f"    ({', '.join(template_targets(layout, new=False))}) = cut(meta)",
            f"    keep(_cuts, {SHAPE_KEY}, cut, MOST_SHAPES)",
            f"    keep(_known, (cut, {', '.join(same_parts(layout))}), known, MOST_TEMPLATES)",
            "return cut, known",
        ]
    )


def view_meta(layout: Layout) -> Iterator[str]:
    """Emit the routing view of the meta frame: all that it needs is in the head, and the identifier is cached."""
    yield "def view(frames: Sequence[bytes]) -> RoutingView:"
    yield f'    """Read what a router needs of a {layout.name} message."""'
    yield "    return view_of_meta(frames, frames[-1])"
    yield from ("", "")
    yield "def view_of_meta(frames: Sequence[bytes], meta: bytes) -> RoutingView:"
    yield f'    """Read what a router needs of a {layout.name} message, whose last frame is known."""'
    kind, rest = kind_and_rest(layout)
    names = cut_names(rest, VIEW_ORDER)[1:]
    sizes = [f"size_{nth}" for nth in range(1, names.count(SIZE) + 1)]
    known_sizes = [f"known_{size}" for size in sizes]
    next_size = iter(sizes)
    targets = [next(next_size) if name == SIZE else name for name in names]
    known = ["cut", *known_sizes, *MessageIdentifier.__struct_fields__]
    unknown = "    return _view(RoutingView, (*_read_head(meta), _FORMAT, frames))"
    body, start = kind_start(kind)
    body += ["try:", f"    ({', '.join(known)}) = _heads[{start}]", f"    ({', '.join(targets)}) = cut(meta)"]
    body += ["except (KeyError, struct.error):", unknown]
    differences = [f"{size} != {known_size}" for size, known_size in zip(sizes, known_sizes, strict=True)]
    body += [f"if {' or '.join(differences)}:", unknown]
    body.append(f"return _view(RoutingView, ({', '.join(VIEW_ORDER)}, _FORMAT, frames))")
    yield from indented(body)


def kind_start(kind: tuple[Field, ...]) -> tuple[list[str], str]:
    """Return the statements and the expression for the first bytes: the identifier, and the size behind it."""
    statements, at, sizes = [], 0, ""
    *_, last = (row for row in kind if not row.type.width)
    for row in kind:
        if not row.type.width:
            size = f"meta[{at}{sizes}]"
            if row is not last:  # which no other depends on
                statements.append(f"{row.name}_size = {size}")
                size = f"{row.name}_size"
            sizes += f" + {size}"
        at += row.type.width or SIZE_WIDTH
    return statements, f"meta[_STARTS[{sizes.removeprefix(' + ')}]]"


def kind_starts(layout: Layout) -> str:
    """Return the table of slices for these bytes, by the sum of their sizes: faster than making them."""
    kind, _ = kind_and_rest(layout)
    varying = sum(not row.type.width for row in kind)
    least = sum(row.type.width or SIZE_WIDTH for row in kind) + SIZE_WIDTH
    return f"_STARTS = [slice({least} + sizes) for sizes in range({varying} * LARGEST_USUAL_SIZE + 1)]"


def encode_meta(layout: Layout) -> Iterator[str]:
    """Emit the encoder of the meta frame: by a cached template, or by a new one.

    Values are compared for equality with cached ones, so that 1.0 is accepted for 1.
    """
    yield from learn_to_write(layout)
    yield from ("", "")
    yield "def encode(message: Message, limits: Limits) -> list[bytes]:"
    yield f'    """Write a message of the usual shape as {layout.name}."""'
    rows = [row for row in (*sections(layout).head, *sections(layout).tail) if row.name in NEW]
    varying = [row.name for row in rows if not row.type.width]
    fixed = [row.name for row in rows if row.type.width]
    same = [f"message.{name}" for name in same_fields(layout)]
    values = [f"message.{name}" if name in fixed else name for name in template_targets(layout)]
    body = ["(body,) = message.bodies", "socket_identity = message.socket_identity"]
    body += [f"{name} = message.{name}" for name in varying]
    body += ["same = (", *(f"    {value}," for value in [*same, *(f"len({name})" for name in varying)]), ")"]
    body += [
        f"pack, entries, {', '.join(same_parts(layout))} = _written.get(same) or _learn_to_write(message, same)",
        f"meta = pack({', '.join(values)})",
        'if message.extension != b"":',
        "    meta += written_extension(message.extension)",
    ]
    body += write_checks(
        "len(meta) + len(body) + len(socket_identity) > limits.usual_size",
        "entries + 4 > limits.usual_frames",
        "body.__class__ is not bytes",
        "socket_identity.__class__ is not bytes",
    )
    body.append('return [socket_identity, b"", body, meta]')
    yield from indented(body)


def learn_to_write(layout: Layout) -> Iterator[str]:
    """Emit the function that writes a whole frame and caches its template."""
    yield "def _learn_to_write(message: Message, same: Values) -> Values:"
    yield '    """Return the function that packs such frames, the number of entries, and the bytes between."""'
    parts = sections(layout)
    groups = [entries.name for entries in entry_groups(layout)]
    counts = [f"{name}_count" for name in groups]
    body = [f"{name} = message.{name}" for name in groups]
    body += [f"{name}_count = len({name})" for name in groups]
    body += [f"if {' or '.join(f'{count} > MOST_USUAL_ENTRIES' for count in counts)}:", "    raise FastPathMiss"]
    for row in (*parts.head, *parts.tail):
        if not row.type.width:
            body.append(f"{row.name} = message.{row.name}{'.encode()' if row.type is Type.TEXT else ''}")
            body.append(f"{row.name}_size = len({row.name})")
    body += [f"section = {' + '.join(f'_{name}_bytes({name})' for name in groups)}"]
    pieces = [
        *pack_section("_pack_head", parts.head),
        "section,",
        *pack_section("_pack_tail", parts.tail),
    ]
    same = same_parts(layout)
    body += [
        'meta = b"".join((',
        *indented(pieces),
        "))",
        f"template = _templates[{sizes_of(layout, 'section')}]",
        f"({', '.join(template_targets(layout, new=False))}) = template.unpack(meta)",
        f"written = (template.pack, {' + '.join(counts)}, {', '.join(same)})",
        "if len(meta) <= LARGEST_TEMPLATE:",
        "    keep(_written, same, written, MOST_TEMPLATES)",
        "return written",
    ]
    yield from indented(body)


def pack_section(packers: str, rows: Collection[Field]) -> Iterator[str]:
    """Emit the packing of a head or tail, by the struct for its sizes."""
    yield f"{packers}[{', '.join(f'{row.name}_size' for row in rows if not row.type.width)}]("
    for row in rows:
        if row.type.width:
            yield from (f"    {meta_number(name)}," for name in names_of(row) if not is_reserved(name))
        else:
            yield f"    {row.name}_size, {row.name},"
    yield "),"


def meta_number(name: str) -> str:
    """Return the expression for one number of the meta frame."""
    if name == "version.wire_format":
        return str(int.from_bytes(V6.number, "little"))
    if name == "body.offset":
        return str(len(V6.fixed) + 1)
    return word_value(name)
