"""Emit the codec of V6, whose headers stand in one frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from hopline.message import MessageIdentifier
from hopline.wire.layout import Entries, Field, Layout, Type
from hopline.wire.layouts import V6
from hopline.wire.shapes import SIZE, cut_names, is_reserved, kind_and_rest, sections
from tools.compiler.emit import (
    ENTRY_CLASS,
    ENTRY_ORDER,
    MESSAGE_ORDER,
    STRUCT,
    VIEW_ORDER,
    indented,
    local,
    message_arguments,
    names_of,
    remembered,
    unused,
    word_value,
    write_checks,
)

LETTERS = {"H": "_u16", "I": "_u32", "q": "_i64"}
SIZE_WIDTH = 4


class Run:
    """Neighbouring numbers of the meta frame, read or written by one struct; a length ends it."""

    def __init__(self) -> None:
        self.code = ""
        self.names: list[str] = []

    def add(self, code: str, *names: str) -> None:
        """Add a number, or the words of a packed one."""
        self.code += code
        self.names += names

    @property
    def size(self) -> int:
        """How many bytes the run takes."""
        return sum({"H": 2, "I": 4, "q": 8}[letter] for letter in expanded(self.code))


def expanded(code: str) -> str:
    """Write out the repeats of a struct code."""
    return code.replace("4H", "HHHH")


def struct_name(code: str, *, pack: bool) -> str:
    """Name the compiled struct of a run."""
    squeezed = "".join(
        f"{LETTERS[letter]}{f'x{count}' if (count := len(list(group))) > 1 else ''}"
        for letter, group in groupby(expanded(code))
    )
    return f"_{'pack' if pack else 'unpack'}{squeezed.replace('u16x4', 'words')}"


def used_structs() -> Iterator[str]:
    """Emit the structs that the V6 functions name."""
    groups = [row for row in V6.meta if isinstance(row, Entries)]
    inside = [run for entries in groups for _, run in meta_runs(entries.fields)]
    between = [run for _, run in meta_runs(sections(V6).entries) if run.code]
    yield kind_starts(V6)
    yield "_heads: Heads = {}"
    yield f"_read_head = head_reader(V6, {VIEW_ORDER!r}, _heads)"
    yield "_cut = cutter(V6, {})"
    yield "_pack_head = Packers(sections(V6).head)"
    yield "_pack_tail = Packers(sections(V6).tail)"
    for code in dict.fromkeys(["I", *(run.code for run in inside + between)]):
        yield f'{struct_name(code, pack=False)} = Struct("<{code}").unpack_from'
        yield f'{struct_name(code, pack=True)} = Struct("<{code}").pack'


def meta_runs(rows: Iterable[Field | Entries]) -> Iterator[tuple[list[Field | Entries], Run]]:
    """Cut the meta frame into runs of numbers, each with what follows it: a varying field, entries, or nothing."""
    run = Run()
    for row in rows:
        if isinstance(row, Entries):
            yield [row], run
            run = Run()
        elif row.words:
            run.add("4H", *(word.name for word in row.words))
        elif row.type.width:
            run.add(STRUCT[row.type], row.name)
        else:
            run.add("I", f"{row.name}.size")
            yield [row], run
            run = Run()
    if run.code:
        yield [], run


def read_run(run: Run, prefix: str = "") -> list[str]:
    """Give the statements that read one run of a section."""
    names = ", ".join("_" if unused(name) else prefix + local(name) for name in run.names)
    comma = "," if len(run.names) == 1 else ""
    return [f"({names}{comma}) = {struct_name(run.code, pack=False)}(section, at)", f"at += {run.size}"]


def read_varying(row: Field, prefix: str) -> str:
    """Give the statement that reads bytes or text; a size beyond the section is noticed at the end."""
    text = '.decode("utf-8", "replace")' if row.type is Type.TEXT else ""
    return f"{prefix}{row.name} = section[at : (at := at + {prefix}{row.name}_size)]{text}"


def entries_reader(layout: Layout) -> Iterator[str]:
    """Emit the function that reads the section of the entries; the first count stands in front of it."""
    rows = sections(layout).entries
    groups = [row for row in rows if isinstance(row, Entries)]
    results = ", ".join(f"tuple[{ENTRY_CLASS[entries.name]}, ...]" for entries in groups)
    yield from remembered(f"_entries(section: bytes, {groups[0].name}_count: int) -> tuple[{results}]")
    yield '    """Read the entries, whatever newer writers put behind their fields."""'
    body = ["if len(section) > LARGEST_USUAL_LIST:", "    raise Unusual", "at = 0"]
    for follower, run in meta_runs(rows):
        if run.code:
            body += read_run(run)
        body += [f"if {row.name}_count > MOST_USUAL_ENTRIES:\n        raise Unusual" for row in follower]
        for entries in (row for row in follower if isinstance(row, Entries)):
            body += [f"{entries.name} = []", f"for _ in range({entries.name}_count):"]
            body += indented(read_entry(entries))
    body += ["if at != len(section):", "    raise Unusual"]
    body.append(f"return {', '.join(f'tuple({entries.name})' for entries in groups)}")
    yield from indented(body)


def read_entry(entries: Entries) -> Iterator[str]:
    """Emit the reading of one entry."""
    yield "(size,) = _unpack_u32(section, at)"
    yield "at += 4"
    yield "end = at + size"
    for follower, run in meta_runs(entries.fields):
        yield from read_run(run, "entry_")
        yield from (read_varying(row, "entry_") for row in follower if isinstance(row, Field))
    yield "if at > end:"
    yield "    raise Unusual"
    yield "at = end"
    values = ", ".join(f"entry_{attribute}" for attribute in ENTRY_ORDER[entries.name])
    yield f"{entries.name}.append({ENTRY_CLASS[entries.name]}({values}))"


def own_count(row: Field | Entries, run: Run) -> bool:
    """Tell whether the run in front of some entries is nothing but their count."""
    return isinstance(row, Entries) and run.names == [f"{row.name}.count"]


def entries_writer(entries: Entries) -> Iterator[str]:
    """Emit the function that writes the entries of a group, each with its size in front, behind a count of its own."""
    name = entries.name
    counts = [
        run for follower, run in meta_runs(V6.meta) if any(row is entries and own_count(row, run) for row in follower)
    ]
    yield from remembered(f"_{name}_bytes({name}: tuple[{ENTRY_CLASS[name]}, ...]) -> bytes")
    yield f'    """Write the {name} entries."""'
    body = [
        f"{row.name} = entry.{row.name}{'.encode()' if row.type is Type.TEXT else ''}"
        for row in entries.fields
        if not row.type.width
    ]
    pieces = []
    for follower, run in meta_runs(entries.fields):
        values = [f"len({name[:-5]})" if name.endswith(".size") else f"entry.{name}" for name in run.names]
        pieces.append(f"{struct_name(run.code, pack=True)}({', '.join(values)}),")
        pieces += [f"{row.name}," for row in follower]
    body += ['content = b"".join((', *indented(pieces), "))", "parts += (_pack_u32(len(content)), content)"]
    first = ", ".join(f"{struct_name(run.code, pack=True)}(len({name}))" for run in counts)
    yield from indented([f"parts: list[bytes] = [{first}]", f"for entry in {name}:", *indented(body)])
    yield '    written = b"".join(parts)'
    yield "    if len(written) > LARGEST_USUAL_LIST:"
    yield "        raise Unusual"
    yield "    return written"


def cut_targets(rows: Collection[Field], used: Collection[str], wanted: Collection[str] | None = None) -> list[str]:
    """Give the variables that the values of a section are unpacked into; a size has been looked at before."""
    text = [row.name for row in rows if row.type is Type.TEXT]
    names = (f"raw_{name}" if name in text else name for name in cut_names(rows, wanted))
    return [local(name) if name.removeprefix("raw_") in used else "_" for name in names]


def decode_meta(layout: Layout) -> Iterator[str]:
    """Emit the decoder of the meta frame."""
    yield "def decode(frames: Sequence[bytes], limits: Limits) -> Message:"
    yield f'    """Read a message of the usual {layout.name} shape."""'
    parts = sections(layout)
    groups = [row.name for row in parts.entries if isinstance(row, Entries)]
    wanted = {*MESSAGE_ORDER, "version.wire_format", f"{groups[0]}.count", "body.offset", "body.count"}
    targets = [*cut_targets(parts.head, wanted), "section", *cut_targets(parts.tail, wanted)]
    body = [
        "total = len(frames)",
        f"({', '.join(targets)}) = _cut(frames[-1])",
        f"if version_wire_format != {meta_number('version.wire_format')} or body_count != 1 or not body_offset:",
        "    raise Unusual",
        "body = frames[-body_offset]",
        f"{', '.join(groups)} = _entries(section, {groups[0]}_count)",
        "if (",
        "    total > limits.frames",
        "    or body.__class__ is not bytes",
        "    or sum(map(len, frames)) > limits.usual_size",
        *(f"    or len({name}) > limits.entries" for name in groups),
        "):",
        "    raise Unusual",
    ]
    values = set(layout.names())
    arguments = indented(message_arguments(values))
    body += ["return Message(", *arguments, ")"]
    text = [row.name for row in (*parts.head, *parts.tail) if row.type is Type.TEXT]
    for line in indented(body):
        name = line.strip().rstrip(",")
        if name in text:
            yield line.replace(name, f'raw_{name}.decode("utf-8", "replace")')
        elif name == "socket_identity":
            yield line.replace(name, 'frames[0] if total > body_offset else b""')
        else:
            yield line


def view_meta(layout: Layout) -> Iterator[str]:
    """Emit the routing view of the meta frame: all that it needs is in the head, and the kind is remembered."""
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
    """Give the statements and the expression for the first bytes of a meta frame: the kind, and the size behind it."""
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
    """Give the table of the slices that cut off a start, by the sum of its sizes: making one is a third of the cut."""
    kind, _ = kind_and_rest(layout)
    varying = sum(not row.type.width for row in kind)
    least = sum(row.type.width or SIZE_WIDTH for row in kind) + SIZE_WIDTH
    return f"_STARTS = [slice({least} + sizes) for sizes in range({varying} * LARGEST_USUAL_SIZE + 1)]"


def encode_meta(layout: Layout) -> Iterator[str]:
    """Emit the encoder of the meta frame."""
    yield "def encode(message: Message, limits: Limits) -> list[bytes]:"
    yield f'    """Write a message of the usual shape as {layout.name}."""'
    parts = sections(layout)
    groups = [row.name for row in parts.entries if isinstance(row, Entries)]
    counts = [f"{name}_count" for name in groups]
    body = ["(body,) = message.bodies", "socket_identity = message.socket_identity"]
    body += [f"{name} = message.{name}" for name in groups]
    body += [f"{name}_count = len({name})" for name in groups]
    body += [f"if {' or '.join(f'{count} > MOST_USUAL_ENTRIES' for count in counts)}:", "    raise Unusual"]
    for row in (*parts.head, *parts.tail):
        if not row.type.width:
            body.append(f"{row.name} = message.{row.name}{'.encode()' if row.type is Type.TEXT else ''}")
            body.append(f"{row.name}_size = len({row.name})")
    pieces = [
        *pack_section("_pack_head", parts.head),
        *(f"_{name}_bytes({name})," for name in groups),
        *pack_section("_pack_tail", parts.tail),
    ]
    body += ['meta = b"".join((', *indented(pieces), "))"]
    body += write_checks(
        "len(meta) + len(body) + len(socket_identity) > limits.usual_size",
        f"{' + '.join(counts)} + 4 > limits.usual_frames",
        "body.__class__ is not bytes",
        "socket_identity.__class__ is not bytes",
    )
    body.append('return [socket_identity, b"", body, meta]')
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
    """Give the expression for one number of the meta frame."""
    if name == "version.wire_format":
        return str(int.from_bytes(V6.number, "little"))
    if name == "body.offset":
        return str(len(V6.fixed) + 1)
    return word_value(name)
