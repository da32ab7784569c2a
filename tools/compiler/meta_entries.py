"""Emit what reads and writes the entries of V6: the routers and the callbacks, each group a list in the meta frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from hopline.wire.layout import Entries, Field, Layout, Type
from hopline.wire.layouts import V6
from hopline.wire.shapes import sections
from tools.compiler.emit import ENTRY_CLASS, ENTRY_ORDER, STRUCT, indented, local, remembered, unused

LETTERS = {"H": "_u16", "I": "_u32", "q": "_i64"}


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
    """Return the statements that read one run of a section."""
    names = ", ".join("_" if unused(name) else prefix + local(name) for name in run.names)
    comma = "," if len(run.names) == 1 else ""
    return [f"({names}{comma}) = {struct_name(run.code, pack=False)}(section, at)", f"at += {run.size}"]


def read_varying(row: Field, prefix: str) -> str:
    """Return the statement that reads bytes or text; a size beyond the section is noticed at the end."""
    text = '.decode("utf-8", "replace")' if row.type is Type.TEXT else ""
    return f"{prefix}{row.name} = section[at : (at := at + {prefix}{row.name}_size)]{text}"


def entries_reader(layout: Layout) -> Iterator[str]:
    """Emit the function that reads the section of the entries; the first count stands in front of it."""
    rows = sections(layout).entries
    groups = [row for row in rows if isinstance(row, Entries)]
    results = ", ".join(f"tuple[{ENTRY_CLASS[entries.name]}, ...]" for entries in groups)
    yield from remembered(f"_entries(section: bytes, {groups[0].name}_count: int) -> tuple[{results}]")
    yield '    """Read the entries, whatever newer writers put behind their fields."""'
    body = ["if len(section) > LARGEST_USUAL_LIST:", "    raise FastPathMiss", "at = 0"]
    for follower, run in meta_runs(rows):
        if run.code:
            body += read_run(run)
        body += [f"if {row.name}_count > MOST_USUAL_ENTRIES:\n        raise FastPathMiss" for row in follower]
        for entries in (row for row in follower if isinstance(row, Entries)):
            body += [f"{entries.name} = []", f"for _ in range({entries.name}_count):"]
            body += indented(read_entry(entries))
    body += ["if at != len(section):", "    raise FastPathMiss"]
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
    yield "    raise FastPathMiss"
    yield "at = end"
    values = ", ".join(f"entry_{attribute}" for attribute in ENTRY_ORDER[entries.name])
    yield f"{entries.name}.append({ENTRY_CLASS[entries.name]}({values}))"


def entry_groups(layout: Layout) -> list[Entries]:
    """Return the groups of entries of the meta frame."""
    return [row for row in layout.meta if isinstance(row, Entries)]


def own_count(row: Field | Entries, run: Run) -> bool:
    """Return whether the run in front of some entries is nothing but their count."""
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
    yield "        raise FastPathMiss"
    yield "    return written"
