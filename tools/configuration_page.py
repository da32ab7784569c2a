"""Write the table of every key into ``docs/reference/configuration.md``: ``python -m tools.configuration_page``.

The keys and defaults are those of the settings; the meaning of a key is the comment beside its field.
"""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from hopline.config.schema import SECTIONS, Key, Keys, keys_of

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "configuration.md"
BEGIN, END = "<!-- keys: made by tools/configuration_page.py. Do not edit: make generate. -->", "<!-- end of keys -->"


def rows(keys: Keys, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a section and of the sections in it: name, default, meaning."""
    for key in sorted(keys.values(), key=lambda key: _is_section(key.type)):  # sections after the keys beside them
        name = f"{path}.{key.name}"
        if _is_section(key.type):
            yield from rows(keys_of(key.type), name)
            continue
        yield name, _default(key), meaning(key)
        entry = _entry(key.type)
        if entry is not None:
            yield from rows(keys_of(entry), f"{name}[]")


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _entry(kind: Any) -> Any:
    if typing.get_origin(kind) is not Sequence:
        return None
    (entry,) = typing.get_args(kind)
    options = typing.get_args(entry) or (entry,)
    return next((option for option in options if _is_section(option)), None)


def _default(key: Key) -> str:
    value = key.default
    if value is msgspec.NODEFAULT:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, Enum | str):
        return f'`"{value}"`'
    if isinstance(value, tuple | list):
        return f"`{msgspec.json.encode(list(value)).decode()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def meaning(key: Key) -> str:
    """Return the comment beside a field."""
    source = inspect.getsource(key.owner)
    (owner,) = ast.parse(source).body
    for field in ast.walk(owner):
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == key.name:
            lines = source.splitlines()[field.lineno - 1 : field.end_lineno]
            return next((line.partition("# ")[2].strip() for line in lines if "# " in line), "")
    return ""


def tables() -> str:
    """Return the tables of all sections."""
    lines: list[str] = []
    for section, keys in SECTIONS.items():
        lines += [f"### `[{section}]`", "", "| key | default | meaning |", "|---|---|---|"]
        lines += [f"| `{name}` | {default} | {text} |" for name, default, text in rows(keys, section)]
        lines.append("")
    return "\n".join(lines)


def generate() -> str:
    """Return the page with new tables."""
    before, _, rest = TARGET.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
