"""Checking values against the types of their keys. An error names the key and the origin of the value.

A key is either a section (a struct, whose fields are keys again), a list whose entries may be sections, or a plain
value that msgspec converts. Settings check the meaning of their values themselves and raise `ArgumentError`, which
becomes a `ConfigurationError` here.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from types import NoneType, UnionType
from typing import Any

import msgspec

from hopline.config.errors import ConfigurationError, shown
from hopline.config.origins import Given, Tree, did_you_mean, first_origin, with_origin
from hopline.config.schema import SECTIONS, Keys, keys_of
from hopline.message import ArgumentError

Values = dict[str, Any]
_CONVERSION_ERRORS = (msgspec.ValidationError, ArgumentError)
_TYPE_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "nothing",
}


def check_sections(tree: Tree) -> dict[str, Values]:
    """Check a whole configuration, and return the values of each section.

    Raises:
        ConfigurationError: For the first value that cannot be used.
    """
    for name, node in tree.items():
        if name not in SECTIONS:
            suggestion = did_you_mean(name, SECTIONS)
            raise _error(first_origin(node), name, f"unknown section, {suggestion}")
    sections = {}
    for name, keys in SECTIONS.items():
        table = tree.get(name, {})
        sections[name] = check_table(keys, table, name)
    return sections


def check_table(keys: Keys, node: Given | Tree, path: str) -> Values:
    """Check one table, and return its values."""
    if isinstance(node, Given):
        raise _error(node, path, f"expected a table, found {shown(node.value)}")
    values: Values = {}
    for name, value in node.items():
        value_path = f"{path}.{name}"
        if name not in keys:
            suggestion = did_you_mean(name, keys)
            raise _error(first_origin(value), value_path, f"unknown key, {suggestion}")
        expected = keys[name].type
        values[name] = _check(expected, value, value_path)
    return values


def _check(expected: Any, node: Given | Tree, path: str) -> Any:
    if _is_section(expected):
        values = check_table(keys_of(expected), node, path)
        return make(expected, values, path, node)
    if isinstance(node, dict):  # an inline table in place of a value
        raise _error(first_origin(node), path, f"expected {in_words(expected)}, found a table")
    has_sections = _section_of_entries(expected) is not None
    if has_sections and isinstance(node.value, list):
        entries = []
        for index, entry in enumerate(node.value):
            entries.append(_check_entry(expected, entry, node, f"{path}[{index}]"))
        return entries
    return _convert(expected, node, path)


def _convert(expected: Any, node: Given, path: str) -> Any:
    try:
        return msgspec.convert(node.value, expected)
    except _CONVERSION_ERRORS as error:
        problem = _problem(expected, node.value, error)
    is_parsed_text = node.text is not None and not isinstance(node.value, str)
    if is_parsed_text:
        with suppress(*_CONVERSION_ERRORS):  # 10 in the environment was parsed as a number, and may be a name
            return msgspec.convert(node.text, expected)
    raise _error(node, path, problem)


def _check_entry(expected: Any, value: Any, origin: Given, path: str) -> Any:
    if isinstance(value, dict):
        section = _section_of_entries(expected)
        table = with_origin(value, origin.origin)
        return _check(section, table, path)
    (entry_type,) = typing.get_args(expected)
    entry = msgspec.structs.replace(origin, value=value, text=None)
    return _check(entry_type, entry, path)


def make(kind: type[Any], values: Values, path: str, node: Given | Tree) -> Any:
    """Return settings made of checked values.

    Args:
        kind: The class of the settings.
        values: Its arguments.
        path: The key of the section, for error messages.
        node: The values with their origins, for error messages.

    Raises:
        ConfigurationError: If a required key is missing, or the settings refuse a value.
    """
    try:
        return kind(**values)
    except ArgumentError as error:
        raise _from_settings(error, kind, path, node) from None
    except TypeError:
        missing = _missing_key(kind, values)
        origin = first_origin(node).origin
        raise ConfigurationError(origin, f"{path}.{missing}", "this key is missing") from None


def _missing_key(kind: type[Any], values: Values) -> str:
    """Return the first required key of a section that has no value."""
    for name, key in keys_of(kind).items():
        is_required = key.default is msgspec.NODEFAULT
        if is_required and name not in values:
            return name
    raise LookupError(f"no required key of {kind.__name__} is missing")


def _from_settings(error: ArgumentError, kind: type[Any], path: str, node: Given | Tree) -> ConfigurationError:
    """Return the error of settings as an error of the key that it is about, if there is one."""
    # Some settings prefix the name of the field, as in lease.max_lease; the last word is the key.
    field = re.split(r"[.\s]", error.field)[-1]
    problem = expected_and_found(error)
    if isinstance(node, dict) and field in node:
        origin = first_origin(node[field])
        return _error(origin, f"{path}.{field}", problem)
    is_key = field in keys_of(kind)
    key = f"{path}.{field}" if is_key else f"{path}: {error.field}"
    section_origin = first_origin(node).origin
    return ConfigurationError(section_origin, key, problem)


def expected_and_found(error: ArgumentError) -> str:
    """Return the problem that settings report, without the name of the field."""
    return f"expected {error.expected}, found {shown(error.found)}"


def _error(given: Given, path: str, problem: str) -> ConfigurationError:
    has_key = given.names_key or not given.origin
    key = path if has_key else ""
    return ConfigurationError(given.origin, key, problem)


def _problem(expected: Any, value: Any, error: Exception) -> str:
    if isinstance(error, ArgumentError):
        return expected_and_found(error)
    return f"expected {in_words(expected)}, found {shown(value)}"


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _section_of_entries(kind: Any) -> Any:
    """Return the section that the entries of a list may be, or None."""
    if typing.get_origin(kind) is not Sequence:
        return None
    (entry,) = typing.get_args(kind)
    options = typing.get_args(entry) if isinstance(entry, UnionType) else (entry,)
    sections = filter(_is_section, options)
    return next(sections, None)


def in_words(kind: Any) -> str:
    """Return the values that a type allows, in words."""
    origin = typing.get_origin(kind)
    is_union = isinstance(kind, UnionType) or origin is typing.Union
    if is_union:
        options = [option for option in typing.get_args(kind) if option is not NoneType]
        return " or ".join(map(in_words, options))
    if origin is Sequence:
        (entry,) = typing.get_args(kind)
        return f"a list of {in_words(entry)}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        values = [str(member.value) for member in kind]
        choices = ", ".join(values)
        return f"one of {choices}"
    if _is_section(kind):
        return "a table"
    return _TYPE_NAMES.get(kind, str(kind))
