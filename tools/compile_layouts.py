"""Compile the layout tables into straight-line codecs: ``python -m tools.compile_layouts``.

The compiled functions are fast paths. They read and write the usual message and raise on anything odd (`Unusual`, or
whatever Python raises on the way); the careful reader and writer then have the word. What a fast path accepts, the
careful path must accept with the same result: tests hold them against each other.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":  # the codecs that are there may be stale or broken, and are not needed for making new ones
    stand_in = ModuleType("hopline.wire.compiled")
    vars(stand_in).update({table: defaultdict(lambda: None) for table in ("ENCODERS", "DECODERS", "VIEWS")})
    sys.modules[stand_in.__name__] = stand_in

from hopline.message import Message
from hopline.wire.layout import Empty, Entries, Field, Layout, Type
from hopline.wire.layouts import FIRST, FIRST_TICKS, V4, V5, V6
from hopline.wire.shapes import cut_names, sections
from hopline.wire.view import RoutingView

TARGET = Path(__file__).parent.parent / "src" / "hopline" / "wire" / "compiled"
COMPILED = (FIRST, FIRST_TICKS, V4, V5, V6)

ENTRY_CLASS = {"callback_point": "MessageIdentifier", "routing": "RoutingEntry"}
ENTRY_ORDER = {"callback_point": ("identity", "version", "partition"), "routing": ("uri", "identity")}
VIEW_ORDER = RoutingView._fields[:-2]  # without the format and the frames
MESSAGE_ORDER = Message.__struct_fields__[:-1]  # without the format
ABSENT = {"callback_key": "0", "domain": '""'}  # every other absent field is empty bytes
LETTERS = {"H": "_u16", "I": "_u32", "q": "_i64"}
READERS = {Type.U16: "_u16", Type.I32: "_i32", Type.I64: "_i64", Type.WORDS: "_words"}
STRUCT = {Type.U16: "H", Type.I32: "i", Type.I64: "q", Type.WORDS: "4H"}

NOTICE = """\
# Compiled from the tables in hopline.wire.layouts by tools/compile_layouts.py.
# Do not edit: change the tables and run ``make generate``.
"""

IMPORTS = """
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from hopline.message import (
    COMMON_VERSION_TEXTS,
    Message,
    MessageIdentifier,
    RoutingEntry,
    WireFormat,
    version_from_text,
)
from hopline.wire.layouts import V6
from hopline.wire.limits import Limits
from hopline.wire.shapes import cutter, head_cutter
from hopline.wire.unusual import (
    LARGEST_USUAL_LIST,
    LARGEST_USUAL_URI,
    MOST_USUAL_ENTRIES,
    REMEMBERED_LISTS,
    USUAL_SCHEMES,
    USUAL_URI_STARTS,
    Unusual,
)
from hopline.wire.view import RoutingView

_view = tuple.__new__
"""


def local(name: str) -> str:
    """Turn a row's name into the name of a variable."""
    return name.replace(".", "_")


def reader_of(row: Field) -> str:
    """Name the function that unpacks a number of this type."""
    return READERS[row.type]


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Shift lines to the right."""
    return ["    " * by + line for line in lines]


# -- decoding the multipart formats --------------------------------------------------------------------------------


def read_value(row: Field, raw: str, unwanted: Collection[str] = ()) -> Iterator[str]:
    """Emit what turns the raw frame of a row into its value."""
    name = local(row.name)
    if row.words:
        names = ("_" if unused(word.name) or word.name in unwanted else local(word.name) for word in row.words)
        yield f"({', '.join(names)}) = _words({raw})"
    elif row.type is Type.TEXT:
        yield f'{name} = {raw}.decode("utf-8", "replace")'
    elif row.type is Type.VERSION_TEXT:
        yield f"{name} = version_from_text({raw})"
    elif row.values is not None:
        yield f"{name} = {table_name(row)}[{raw}]"
    elif row.empty is Empty.NO_ENTRIES:
        yield f"{name} = {reader_of(row)}({raw})[0] if {raw} else 0"
    else:
        yield f"({name},) = {reader_of(row)}({raw})"
    if row.minimum is not None:
        yield f"if {name} < {row.minimum}:"
        yield "    raise Unusual"
    if row.scale != 1:
        bound = (2**63 - 1) // row.scale
        yield f"if not -{bound} <= {name} <= {bound}:"
        yield "    raise Unusual"
        yield f"{name} *= {row.scale}"


def table_name(row: Field, *, inverse: bool = False) -> str:
    """Name the table of a row's allowed values."""
    return f"_{local(row.name).upper()}{'_ON_WIRE' if inverse else ''}"


def read_entries(entries: Entries, *, has_divisor: bool) -> Iterator[str]:
    """Emit the reading of one group of entries."""
    name, rows = entries.name, len(entries.fields)
    divisor = f"{name}_divisor" if has_divisor else str(entries.divisor)
    odd = [f"{name}_divisor < {rows}"] if has_divisor else []
    raws = {row.name: f"frames[at - {row.position}]" if row.position else "frames[at]" for row in entries.fields}
    values = []
    for attribute in ENTRY_ORDER[name]:
        row = next((row for row in entries.fields if row.name == attribute), None)
        if row is None:
            values.append('b""')
        elif row.type is Type.U16:
            values.append(f"_u16({raws[attribute]})[0]")
        elif row.type is Type.VERSION_TEXT:
            values.append(f"version_from_text({raws[attribute]})")
        elif row.type is Type.TEXT:
            values.append(f'{raws[attribute]}.decode("utf-8", "replace")')
        elif row.type is Type.URI:
            values.append(f"_uri({raws[attribute]})")
        else:
            values.append(raws[attribute])
    yield f"{name}: tuple[{ENTRY_CLASS[name]}, ...] = ()"
    yield f"if {name}_count > 0:"
    yield f"    bottom = total - {name}_offset"
    yield f"    at = bottom - ({name}_count - 1) * {divisor}"
    yield f"    if {' or '.join([*odd, f'at < {rows - 1}', 'bottom >= total'])}:"
    yield "        raise Unusual"
    yield f"    {name}_list = []"
    yield "    while at <= bottom:"
    yield f"        {name}_list.append({ENTRY_CLASS[name]}({', '.join(values)}))"
    yield f"        at += {divisor}"
    yield f"    {name} = tuple({name}_list)"


def full_layout_check(layout: Layout) -> Iterator[str]:
    """Emit, for V4, the refusal of the early layouts that share its number."""
    if layout is V4:
        offset = "body_offset"
        for name in ("routing", "callback_point"):
            offset = f"{name}_offset if {name}_count else {offset}"
        yield f"if len(raw_version) != 2 or body_count != 1 or ({offset}) != {len(layout.fixed) + 1}:"
        yield "    raise Unusual"


def decode_multipart(layout: Layout) -> Iterator[str]:
    """Emit the decoder of a format that spreads its headers over frames."""
    fixed = layout.fixed
    yield "def decode(frames: Sequence[bytes], limits: Limits) -> Message:"
    yield f'    """Read a message of the usual {layout.name} shape."""'
    body: list[str] = ["total = len(frames)"]
    targets, conversions = [], []
    for row in reversed(fixed):
        if row.name == "version.wire_format":
            targets.append("_")
        elif row.type is Type.BYTES:
            targets.append({"bodies": "body", "frame.delimiter": "delimiter"}.get(row.name, row.name))
        else:
            targets.append(f"raw_{local(row.name)}")
            conversions.append(row)
    body.append(f"({', '.join(targets)}) = frames[-{len(fixed)}:]")
    for row in conversions:
        body += read_value(row, f"raw_{local(row.name)}")
    body += full_layout_check(layout)
    if "delimiter" in targets:
        body += ["if delimiter:", "    raise Unusual"]
    if layout.has_body_offset:
        counted = "" if layout is V4 else "body_count != 1 or "  # V4 has looked at it before
        body += [f"if {counted}not body_offset:", "    raise Unusual", "body = frames[-body_offset]"]
        body += ['size = len(b"".join(frames[:-body_offset])) + len(b"".join(frames[1 - body_offset :]))']
    else:
        body += ['size = len(b"".join(frames[:-1]))']
    body += size_check()
    has_divisor = any("divisor" in word.name for row in fixed for word in row.words)
    for entries in layout.entries:
        body += read_entries(entries, has_divisor=has_divisor)
    body += ["return Message(", *indented(message_arguments(set(layout.names()))), ")"]
    yield from indented(body)


def size_check() -> Iterator[str]:
    """Emit the refusal of what may be beyond a limit. Joining the small frames is the fastest way to add them up."""
    yield "if total > limits.usual_frames or size + len(body) > limits.usual_size or body.__class__ is not bytes:"
    yield "    raise Unusual"


def message_arguments(present: set[str]) -> Iterator[str]:
    """Emit the arguments of a message, in its own order."""
    for name in MESSAGE_ORDER:
        if name == "bodies":
            yield "(body,),"
        else:
            yield f"{name}," if name in present else f"{ABSENT.get(name, 'b' + chr(34) * 2)},"
    yield "_FORMAT,"


def view_multipart(layout: Layout) -> Iterator[str]:
    """Emit the routing view: the selectors and the hops, and no more than detection needs besides."""
    yield "def view(frames: Sequence[bytes]) -> RoutingView:"
    yield f'    """Read what a router needs of a {layout.name} message."""'
    wanted = [row for row in layout.fixed if wanted_by_view(row)]
    checked = {"body", "callbacks", "routers", "version"} if layout is V4 else {"body", "frame.delimiter"}
    low = min(row.position for row in layout.fixed if row in wanted or row.name in checked)
    high = max(row.position for row in layout.fixed if row in wanted or row.name in checked)
    targets, conversions = [], []
    for row in reversed(layout.fixed[low - 1 : high]):
        if row not in wanted and row.name not in checked:
            targets.append("_")
        elif row.type is Type.BYTES:
            targets.append("delimiter" if row.name == "frame.delimiter" else row.name)
        else:
            targets.append(f"raw_{local(row.name)}")
            conversions.append(row)
    body = [f"({', '.join(targets)}) = frames[-{high}:{f'-{low - 1}' if low > 1 else ''}]"]
    for row in conversions:
        raw = f"raw_{local(row.name)}"
        if layout is not V4 and row.name == "body":
            body += [f"if len({raw}) < 8:", "    raise Unusual"]
        elif layout is not V4 and row.words:
            at, word = next(
                (at, word) for at, word in enumerate(row.words) if word.name in VIEW_ORDER and wanted_word(word.name)
            )
            body.append(f"{word.name} = _words({raw})[{at}]")
        else:
            body += read_value(row, raw, unwanted=("trace_options", "routing.divisor", "callback_point.divisor"))
    if "delimiter" in targets:
        body += ["if delimiter:", "    raise Unusual"]
    body += full_layout_check(layout)
    present = set(layout.names())
    values = [name if name in present else 'b""' for name in VIEW_ORDER]
    body.append(f"return _view(RoutingView, ({', '.join(values)}, _FORMAT, frames))")
    yield from indented(body)


def wanted_word(name: str) -> bool:
    """Tell whether a router looks at a word."""
    return name in ("distribution", "hops")


def wanted_by_view(row: Field) -> bool:
    """Tell whether a router looks at a row."""
    return row.selector or row.name == "hops" or any(wanted_word(word.name) for word in row.words)


# -- encoding the multipart formats --------------------------------------------------------------------------------


def write_value(layout: Layout, row: Field) -> str:
    """Give the expression for one fixed frame."""
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


def word_value(name: str) -> str:
    """Give the expression for one word of a packed frame."""
    if name.startswith("reserved."):
        return "0"
    if name.endswith(".divisor"):
        return str(next(entries.divisor for entries in V5.entries if entries.name == name.split(".")[0]))
    if name == "body.count":
        return "1"
    return local(name) if "." in name else f"message.{name}"


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
            body += [f'if not {value}.startswith(USUAL_SCHEMES) or {value}[-1] == "/":', "    raise Unusual"]
            value = f"{value}.encode()"
        elif row.type is Type.TEXT:
            value = f"{value}.encode()"
        parts.append(value)
    name = entries.name
    own = own_frames(layout, entries)
    result = ", ".join(["tuple[bytes, ...]", *["bytes"] * len(own)])
    yield from remembered(f"_{name}_frames({name}: tuple[{ENTRY_CLASS[name]}, ...]) -> tuple[{result}]")
    yield f'    """Give the frames of the {name} entries, and those that describe them alone."""'
    yield "    frames: list[bytes] = []"
    yield f"    for entry in {name}:"
    yield from indented([*body, f"frames += ({', '.join(parts)})"], 2)
    yield '    if len(b"".join(frames)) > LARGEST_USUAL_LIST or not {bytes}.issuperset(map(type, frames)):'
    yield "        raise Unusual"
    if own:
        yield f"    {name}_count = len({name})"
    if any(f"{name}.offset" in names_of(row) for row in own):
        yield f"    {name}_offset = {len(layout.fixed) + 1} if {name}_count else 0"
    yield f"    return ({', '.join(['tuple(frames)', *(write_value(layout, row) for row in own)])},)"


def names_of(row: Field) -> list[str]:
    """Name what a row holds."""
    return [word.name for word in row.words] or [row.name]


def own_frames(layout: Layout, entries: Entries) -> list[Field]:
    """Give the rows that follow from the number of one group's entries: its offset only for the lowest group."""
    known = {f"{entries.name}.count", f"{entries.name}.divisor", "reserved.2", "reserved.3"}
    if entries is layout.entries[0]:
        known.add(f"{entries.name}.offset")
    count = f"{entries.name}.count"
    offset = f"{entries.name}.offset"
    return [
        row for row in layout.fixed if known.issuperset(names_of(row)) and {count, offset}.intersection(names_of(row))
    ]


def remembered(signature: str) -> Iterator[str]:
    """Emit the head of a function that remembers its results."""
    yield "@lru_cache(maxsize=REMEMBERED_LISTS)"
    yield f"def {signature}:"


def uri_reader() -> Iterator[str]:
    """Emit the function that reads a router's URI."""
    yield from remembered("_uri(raw: bytes) -> str")
    yield '    """Read the URI of a router."""'
    yield "    if len(raw) > LARGEST_USUAL_URI or not raw.startswith(USUAL_URI_STARTS):"
    yield "        raise Unusual"
    yield '    return raw.decode("utf-8", "replace")'


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
    body += [f"if {' or '.join(f'{count} > MOST_USUAL_ENTRIES' for count in counts)}:", "    raise Unusual"]
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
            body += [f"{name}, rest = divmod(message.{name}, {row.scale})", "if rest:", "    raise Unusual"]
        elif row.minimum is not None:
            body += [f"{name} = message.{name}", f"if {name} < {row.minimum}:", "    raise Unusual"]
    rows = [row for row in reversed(layout.fixed) if row.name != "bodies"]
    body += ["headers = (", *indented(f"{made.get(row.name) or write_value(layout, row)}," for row in rows), ")"]
    total = "body_offset + 2" if layout.has_body_offset else "total"
    body += write_checks(
        'len(b"".join(headers)) + len(body) + len(socket_identity) + 2 * LARGEST_USUAL_LIST > limits.usual_size',
        f"{total} > limits.usual_frames",
        "body.__class__ is not bytes",
        "socket_identity.__class__ is not bytes",
    )
    lists = [f"*{entries.name}_frames," for entries in reversed(layout.entries)]
    parts = ["body,", *lists, "*headers,"] if layout.has_body_offset else [*lists, "*headers,", "body,"]
    body += ["return [", *indented(["socket_identity,", 'b"",', *parts]), "]"]
    yield from indented(body)


def write_checks(*odd: str) -> Iterator[str]:
    """Emit the refusal of what is too large or of the wrong type; joining proves the headers to be bytes."""
    yield "if ("
    yield from indented([odd[0], *(f"or {condition}" for condition in odd[1:])])
    yield "):"
    yield "    raise Unusual"


# -- V6: one meta frame --------------------------------------------------------------------------------------------


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
    everywhere = [run for _, run in meta_runs(V6.meta)]
    yield f"_cut_head = head_cutter(V6, {VIEW_ORDER!r}, {{}})"
    yield "_cut = cutter(V6, {})"
    for code in dict.fromkeys(["I", *(run.code for run in inside + between)]):
        yield f'{struct_name(code, pack=False)} = Struct("<{code}").unpack_from'
    for code in dict.fromkeys(["I", *(run.code for run in inside + everywhere)]):
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


def unused(name: str) -> bool:
    """Tell whether nobody needs a number of the meta frame."""
    return name.startswith("reserved.") or name == "version.wire_format"


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
    wanted = {*MESSAGE_ORDER, f"{groups[0]}.count", "body.offset", "body.count"}
    targets = [*cut_targets(parts.head, wanted), "section", *cut_targets(parts.tail, wanted)]
    body = [
        "total = len(frames)",
        f"({', '.join(targets)}) = _cut(frames[-1])",
        "if body_count != 1 or not body_offset:",
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
    """Emit the routing view of the meta frame: all that it needs is in the head."""
    yield "def view(frames: Sequence[bytes]) -> RoutingView:"
    yield f'    """Read what a router needs of a {layout.name} message."""'
    body = [f"({', '.join(cut_targets(sections(layout).head, VIEW_ORDER, VIEW_ORDER))}) = _cut_head(frames[-1])"]
    body.append(f"return _view(RoutingView, ({', '.join(VIEW_ORDER)}, _FORMAT, frames))")
    yield from indented(body)


def encode_meta(layout: Layout) -> Iterator[str]:
    """Emit the encoder of the meta frame."""
    yield "def encode(message: Message, limits: Limits) -> list[bytes]:"
    yield f'    """Write a message of the usual shape as {layout.name}."""'
    groups = [row for row in layout.meta if isinstance(row, Entries)]
    body = ["(body,) = message.bodies", "socket_identity = message.socket_identity"]
    body += [f"{entries.name} = message.{entries.name}" for entries in groups]
    body += [f"{entries.name}_count = len({entries.name})" for entries in groups]
    counts = [f"{entries.name}_count" for entries in groups]
    body += [f"if {' or '.join(f'{count} > MOST_USUAL_ENTRIES' for count in counts)}:", "    raise Unusual"]
    body += [
        f"{row.name} = message.{row.name}{'.encode()' if row.type is Type.TEXT else ''}"
        for row in layout.meta
        if isinstance(row, Field) and not row.type.width
    ]
    pieces: list[str] = []
    for follower, run in meta_runs(layout.meta):
        numbers = ", ".join(meta_number(name) for name in run.names)
        if not any(own_count(row, run) for row in follower):
            pieces.append(f"{struct_name(run.code, pack=True)}({numbers}),")
        for row in follower:
            if isinstance(row, Field):
                pieces.append(f"{row.name},")
            else:
                pieces.append(f"_{row.name}_bytes({row.name}),")
    body += ['meta = b"".join((', *indented(pieces), "))"]
    body += write_checks(
        "len(meta) + len(body) + len(socket_identity) > limits.usual_size",
        f"{' + '.join(counts)} + 4 > limits.usual_frames",
        "body.__class__ is not bytes",
        "socket_identity.__class__ is not bytes",
    )
    body.append('return [socket_identity, b"", body, meta]')
    yield from indented(body)


def meta_number(name: str) -> str:
    """Give the expression for one number of the meta frame."""
    if name == "version.wire_format":
        return str(int.from_bytes(V6.number, "little"))
    if name.endswith(".size"):
        return f"len({name.removesuffix('.size')})"
    if name == "body.offset":
        return str(len(V6.fixed) + 1)
    return word_value(name)


# -- the files -----------------------------------------------------------------------------------------------------


def multipart_structs(layout: Layout) -> Iterator[str]:
    """Emit the structs that a multipart format needs."""
    types = {row.type for entries in layout.entries for row in entries.fields} | {row.type for row in layout.fixed[1:]}
    for kind in (Type.U16, Type.I32, Type.I64, Type.WORDS):
        if kind in types:
            name = READERS[kind]
            yield f'{name} = Struct("<{STRUCT[kind]}").unpack_from'
            yield f'_pack{name} = Struct("<{STRUCT[kind]}").pack'


def value_tables(layout: Layout) -> Iterator[str]:
    """Emit the tables of allowed values, in both directions."""
    for row in layout.fixed:
        if row.values is not None:
            frames = {wire.to_bytes(row.type.width, "little"): ours for wire, ours in row.values.items()}
            yield f"{table_name(row)} = {frames!r}"
            yield f"{table_name(row, inverse=True)} = { {ours: frame for frame, ours in frames.items()}!r}"


def module(layout: Layout) -> str:
    """Give the source of one format's module. Imports that it does not use are left out at the end."""
    groups = layout.entries or [row for row in layout.meta if isinstance(row, Entries)]
    lines = [f'"""Fast paths for {layout.name}: {layout.title}."""', IMPORTS]
    lines.append(f"_FORMAT = WireFormat.{layout.wire_format.name}")
    lines += used_structs() if layout.meta else multipart_structs(layout)
    lines += value_tables(layout)
    for entries in groups:
        lines += ["", "", *(entries_writer(entries) if layout.meta else list_writer(layout, entries))]
    if layout.meta:
        lines += ["", "", *entries_reader(layout)]
    if any(row.type is Type.URI for entries in layout.entries for row in entries.fields):
        lines += ["", "", *uri_reader()]
    emitters = (
        (encode_meta, decode_meta, view_meta) if layout.meta else (encode_multipart, decode_multipart, view_multipart)
    )
    for emit in emitters:
        lines += ["", "", *emit(layout)]
    return NOTICE + "\n".join(lines) + "\n"


def package() -> str:
    """Give the source of the package that names them all."""
    lines = ['"""The fast paths, one module a layout, by the layout\'s name."""', ""]
    lines += [f"from hopline.wire.compiled import {', '.join(layout.name.lower() for layout in COMPILED)}", ""]
    for kind, result in (("encode", "ENCODERS"), ("decode", "DECODERS"), ("view", "VIEWS")):
        pairs = ", ".join(f"{layout.name!r}: {layout.name.lower()}.{kind}" for layout in COMPILED)
        lines.append(f"{result} = {{{pairs}}}")
    return NOTICE + "\n".join(lines) + "\n"


def generate() -> dict[Path, str]:
    """Give every file of the package, formatted."""
    sources = {f"{layout.name.lower()}.py": module(layout) for layout in COMPILED} | {"__init__.py": package()}
    return {TARGET / name: formatted(source) for name, source in sources.items()}


def formatted(source: str) -> str:
    """Put source into the house format."""
    for command in (["check", "--select", "I,F401", "--fix"], ["format"]):
        full = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(TARGET / "module.py"), "-"]
        source = subprocess.run(full, input=source, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return source


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(Path.cwd())}")
