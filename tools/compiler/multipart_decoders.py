"""Emit the decoders and views of the formats that spread their headers over frames."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hopline.wire.layout import Empty, Entries, Field, Layout, Type
from hopline.wire.layouts import V4
from tools.compiler.emit import (
    ENTRY_CLASS,
    ENTRY_ORDER,
    READERS,
    VIEW_ORDER,
    indented,
    local,
    message_arguments,
    unused,
)


def reader_of(row: Field) -> str:
    """Name the function that unpacks the number of a row."""
    return "_version" if row.name == "version" else READERS[row.type]


def read_value(row: Field, raw: str, unwanted: Collection[str] = ()) -> Iterator[str]:
    """Emit what turns the raw frame of a row into its value."""
    name = local(row.name)
    if row.words:
        names = ("_" if unused(word.name) or word.name in unwanted else local(word.name) for word in row.words)
        yield f"({', '.join(names)}) = _words({raw})"
    elif row.type is Type.TEXT:
        yield f'{name} = {raw}.decode("utf-8", "replace")'
    elif row.type is Type.VERSION_TEXT:
        yield f"{name} = COMMON_VERSIONS[{raw}]"
    elif row.values is not None:
        yield f"{name} = {table_name(row)}[{raw}]"
    elif row.empty is Empty.NO_ENTRIES:
        yield f"{name} = {reader_of(row)}({raw})[0] if {raw} else 0"
    else:
        yield f"({name},) = {reader_of(row)}({raw})"
    if row.minimum is not None:
        yield f"if {name} < {row.minimum}:"
        yield "    raise FastPathMiss"
    if row.scale != 1:
        bound = (2**63 - 1) // row.scale
        yield f"if not -{bound} <= {name} <= {bound}:"
        yield "    raise FastPathMiss"
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
            values.append(f"COMMON_VERSIONS[{raws[attribute]}]")
        elif row.type is Type.TEXT:
            values.append(f'{raws[attribute]}.decode("utf-8", "replace")')
        elif row.type is Type.URI:
            values.append(f"_uris[{raws[attribute]}]")
        else:
            values.append(raws[attribute])
    yield f"{name}: tuple[{ENTRY_CLASS[name]}, ...] = ()"
    yield f"if {name}_count > 0:"
    yield f"    bottom = total - {name}_offset"
    yield f"    at = bottom - ({name}_count - 1) * {divisor}"
    yield f"    if {' or '.join([*odd, f'at < {rows - 1}', 'bottom >= total'])}:"
    yield "        raise FastPathMiss"
    yield f"    {name}_list = []"
    yield "    while at <= bottom:"
    yield f"        {name}_list.append({ENTRY_CLASS[name]}({', '.join(values)}))"
    yield f"        at += {divisor}"
    yield f"    {name} = tuple({name}_list)"


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
    if "delimiter" in targets:
        body += ["if delimiter:", "    raise FastPathMiss"]
    if layout.has_body_offset:
        body += ["if body_count != 1 or not body_offset:", "    raise FastPathMiss", "body = frames[-body_offset]"]
    if layout.extension is not None:
        body += read_extension(layout)
    if layout.has_body_offset:
        body += ['size = len(b"".join(frames[:-body_offset])) + len(b"".join(frames[1 - body_offset :]))']
    else:
        body += ['size = len(b"".join(frames[:-1]))']
    body += size_check(len(fixed) + layout.has_body_offset)
    has_divisor = any("divisor" in word.name for row in fixed for word in row.words)
    for entries in layout.entries:
        body += read_entries(entries, has_divisor=has_divisor)
    body += ["return Message(", *indented(message_arguments(set(layout.names()))), ")"]
    yield from indented(body)


def read_extension(layout: Layout) -> Iterator[str]:
    """Emit the reading of the extension, which is there if something keeps the frame right above the fixed ones free.

    In V4 that frame has to be looked at anyway: if it is further down, the layout is one of the early ones that share
    its number. Those with a text version have stumbled before.
    """
    above = len(layout.fixed) + 1
    lowest = "callback_point_offset if callback_point_count else routing_offset if routing_count else body_offset"
    taken = [f"({entries.name}_count and {entries.name}_offset <= {above})" for entries in layout.entries]
    yield 'extension = b""'
    yield f"if ({lowest}) != {above}:"
    yield f"    if {' or '.join([*taken, f'body_offset <= {above}'])}:"
    yield "        raise FastPathMiss"
    yield f"    extension = usable_extension(frames[-{above}])"


def size_check(least: int) -> Iterator[str]:
    """Emit the refusal of what may be beyond a limit. Joining the small frames is the fastest way to add them up."""
    yield "if ("
    yield f"    not {least} <= total <= limits.usual_frames"
    yield "    or size + len(body) > limits.usual_size"
    yield "    or body.__class__ is not bytes"
    yield "):"
    yield "    raise FastPathMiss"


def view_multipart(layout: Layout) -> Iterator[str]:
    """Emit the routing view: the selectors and the hops, and no more than detection needs besides."""
    if layout is V4:
        yield from numbers_reader(layout)
        yield from ("", "")
    yield "def view(frames: Sequence[bytes]) -> RoutingView:"
    yield f'    """Read what a router needs of a {layout.name} message."""'
    wanted = [row for row in layout.fixed if wanted_by_view(row)]
    checked = {"body", "frame.delimiter"} | ({"callbacks"} if layout is V4 else set())
    seen = [row for row in layout.fixed if row in wanted or row.name in checked]
    low, high = seen[0].position, seen[-1].position
    targets = []
    for row in reversed(layout.fixed[low - 1 : high]):
        if row not in seen:
            targets.append("_")
        elif row.type is Type.BYTES:
            targets.append("delimiter" if row.name == "frame.delimiter" else row.name)
        else:
            targets.append(f"raw_{local(row.name)}")
    body = [f"({', '.join(targets)}) = frames[-{high}:{f'-{low - 1}' if low > 1 else ''}]"]
    if layout is V4:
        raws = ", ".join(target for target in targets if target.startswith("raw_"))
        names = ", ".join(name for row in reversed(wanted) for name in view_numbers(row))
        body += ["try:", f"    ({names}) = _numbers[{raws}]"]
        body += ["except KeyError:", f"    ({names}) = _read_numbers({raws})"]
    else:
        for row in reversed(wanted):
            body += read_view_numbers(row)
        # Below an empty frame stands a body of the first format, even if it looks like a version frame.
        body += [f"if {'delimiter' if 'delimiter' in targets else 'not raw_body'}:", "    raise FastPathMiss"]
    present = set(layout.names())
    values = [name if name in present else 'b""' for name in VIEW_ORDER]
    body.append(f"return _view(RoutingView, ({', '.join(values)}, _FORMAT, frames))")
    yield from indented(body)


def view_numbers(row: Field) -> list[str]:
    """Name the numbers that a router wants of a row."""
    if row.words:
        return [word.name for word in row.words if wanted_word(word.name)]
    return [] if row.type is Type.BYTES else [row.name]


def read_view_numbers(row: Field) -> Iterator[str]:
    """Emit the reading of the numbers that a router wants of a row."""
    raw = f"raw_{local(row.name)}"
    if row.words:
        yield from (f"({name},) = _{name}({raw})" for name in view_numbers(row))
    elif view_numbers(row):
        yield from read_value(row, raw)


def numbers_reader(layout: Layout) -> Iterator[str]:
    """Emit the function that reads and remembers the numbers of a view, by all frames that have a say in them.

    There are only so many of these in a network, and to look them up together costs no more than to unpack three of
    them; V4 has to look at five, since what stands right above the fixed frames tells it from the early layouts.
    """
    wanted = [row for row in reversed(layout.fixed) if view_numbers(row) and wanted_by_view(row)]
    rows = [row for row in reversed(layout.fixed) if row in wanted or row.name in ("callbacks", "body")]
    raws = [f"raw_{row.name}" for row in rows]
    names = [name for row in wanted for name in view_numbers(row)]
    result = f"tuple[{', '.join(['int'] * len(names))}]"
    yield f"_numbers: dict[tuple[{', '.join(['bytes'] * len(raws))}], {result}] = {{}}"
    yield from ("", "")
    yield f"def _read_numbers({', '.join(f'{raw}: bytes' for raw in raws)}) -> {result}:"
    yield '    """Read the numbers of a view, and remember them by their frames. An early layout is declined."""'
    body = [line for row in wanted for line in read_view_numbers(row)]
    body += ["(body_offset, _) = _offset_and_count(raw_body)"]
    body += ["(offset, count) = _offset_and_count(raw_callbacks)", "if not count:"]
    body += ["    (offset, count) = _offset_and_count(raw_routers)"]
    body += [f"if (offset if count else body_offset) <= {len(layout.fixed)}:", "    raise FastPathMiss"]
    body += ["if len(_numbers) >= REMEMBERED_LISTS:", "    _numbers.clear()"]
    body += [f"numbers = _numbers[{', '.join(raws)}] = ({', '.join(names)})", "return numbers"]
    yield from indented(body)


def view_structs(layout: Layout) -> Iterator[str]:
    """Emit what a view unpacks with: of a packed frame it wants one word, or for V4 what a descriptor begins with."""
    for row in layout.fixed:
        for at, word in enumerate(row.words):
            if wanted_word(word.name):
                before, behind = 2 * at, 2 * (len(row.words) - at - 1)
                code = f"{f'{before}x' if before else ''}H{f'{behind}x' if behind else ''}"
                yield f'_{word.name} = Struct("<{code}").unpack'
    if layout is V4:
        yield '_offset_and_count = Struct("<2H4x").unpack'


def wanted_word(name: str) -> bool:
    """Return whether a routing view needs a word."""
    return name in ("distribution", "hops")


def wanted_by_view(row: Field) -> bool:
    """Return whether a routing view needs a row."""
    return row.selector or row.name == "hops" or any(wanted_word(word.name) for word in row.words)
