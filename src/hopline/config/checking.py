"""Values against what their keys may hold. What is wrong is said with the key, and with where it was said."""

from __future__ import annotations

import re
import typing
from collections.abc import Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any

import msgspec

from hopline.config.errors import ConfigurationError, shown
from hopline.config.origins import Given, Tree, did_you_mean, first_origin
from hopline.config.schema import SECTIONS, Keys, keys_of
from hopline.message import LocalError

Values = dict[str, Any]
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "nothing"}


def check_sections(tree: Tree) -> dict[str, Values]:
    """Check a whole configuration, and give the values of each section."""
    for name, node in tree.items():
        if name not in SECTIONS:
            said = first_origin(node)
            problem = f"unknown section, {did_you_mean(name, SECTIONS)}"
            raise _error(said, name, problem)
    return {name: check_table(keys, tree.get(name, {}), name) for name, keys in SECTIONS.items()}


def check_table(keys: Keys, node: Given | Tree, path: str) -> Values:
    """Check one table, and give its values."""
    if isinstance(node, Given):
        raise _error(node, path, f"expected a table, found {shown(node.value)}")
    values: Values = {}
    for name, inner in node.items():
        where = f"{path}.{name}"
        if name not in keys:
            raise _error(first_origin(inner), where, f"unknown key, {did_you_mean(name, keys)}")
        values[name] = _check(keys[name].type, inner, where)
    return values


def _check(kind: Any, node: Given | Tree, path: str) -> Any:
    if _is_section(kind):
        return make(kind, check_table(keys_of(kind), node, path), path, node)
    if isinstance(node, dict):  # an inline table where a value belongs
        raise _error(first_origin(node), path, f"expected {in_words(kind)}, found a table")
    section = _section_of_entries(kind)
    if section is not None and isinstance(node.value, list):
        return [_check_entry(kind, section, one, node, f"{path}[{index}]") for index, one in enumerate(node.value)]
    try:
        return msgspec.convert(node.value, kind)
    except (msgspec.ValidationError, LocalError) as error:
        if node.text is not None and not isinstance(node.value, str):
            try:  # 10 may be meant as a name
                return msgspec.convert(node.text, kind)
            except (msgspec.ValidationError, LocalError):
                pass
        raise _error(node, path, _problem(kind, node.value, error)) from None


def _check_entry(kind: Any, section: Any, value: Any, origin: Given, path: str) -> Any:
    if isinstance(value, dict):
        return _check(section, _as_tree(value, origin), path)
    (entry,) = typing.get_args(kind)
    return _check(entry, msgspec.structs.replace(origin, value=value, text=None), path)


def _as_tree(table: dict[str, Any], origin: Given) -> Tree:
    return {
        key: _as_tree(value, origin) if isinstance(value, dict) else Given(value, origin.origin)
        for key, value in table.items()
    }


def make(kind: type[Any], values: Values, path: str, node: Given | Tree) -> Any:
    """Make settings of values; what they find wrong is said with its key."""
    try:
        return kind(**values)
    except TypeError:
        required = [name for name, key in keys_of(kind).items() if key.default is msgspec.NODEFAULT]
        missing = next(name for name in required if name not in values)
        raise ConfigurationError(first_origin(node).origin, f"{path}.{missing}", "this key is missing") from None
    except LocalError as error:
        raise from_local(error, kind, path, node) from None


def from_local(error: LocalError, kind: type[Any], path: str, node: Given | Tree) -> ConfigurationError:
    """Say what settings found wrong with the key that it is about, as far as they name one."""
    # Some name their field with a prefix of their own, such as lease.max_lease; the last word is the key.
    field = re.split(r"[.\s]", error.field)[-1]
    inner = node.get(field) if isinstance(node, dict) else None
    problem = f"expected {error.expected}, found {shown(error.found)}"
    if inner is not None:
        return _error(first_origin(inner), f"{path}.{field}", problem)
    key = f"{path}.{field}" if field in keys_of(kind) else f"{path}: {error.field}"
    return ConfigurationError(first_origin(node).origin, key, problem)


def _error(said: Given, path: str, problem: str) -> ConfigurationError:
    return ConfigurationError(said.origin, path if said.names_key or not said.origin else "", problem)


def _problem(kind: Any, value: Any, error: Exception) -> str:
    if isinstance(error, LocalError):
        return f"expected {error.expected}, found {shown(error.found)}"
    return f"expected {in_words(kind)}, found {shown(value)}"


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _section_of_entries(kind: Any) -> Any:
    """Give the settings that a list may have as entries; None for a list that has none."""
    if typing.get_origin(kind) is not Sequence:
        return None
    (entry,) = typing.get_args(kind)
    options = typing.get_args(entry) if isinstance(entry, UnionType) else (entry,)
    return next((option for option in options if _is_section(option)), None)


def in_words(kind: Any) -> str:
    """Say in words what a key may hold."""
    if isinstance(kind, UnionType) or typing.get_origin(kind) is typing.Union:
        return " or ".join(in_words(one) for one in typing.get_args(kind) if one is not NoneType)
    if typing.get_origin(kind) is Sequence:
        return f"a list of {in_words(typing.get_args(kind)[0])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(one.value) for one in kind)}"
    if _is_section(kind):
        return "a table"
    return _NAMES.get(kind, str(kind))
