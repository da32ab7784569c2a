"""The sources of a configuration: a file, the environment, the command line. Later ones override earlier ones."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hopline.config.errors import ConfigurationError
from hopline.config.schema import SECTIONS

DEFAULT_FILE = "hopline.toml"
FILE_VARIABLE = "HOPLINE_CONFIG"
_PREFIX = "HOPLINE_"
_DOT = "__"

Tree = dict[str, Any]  # tables are dictionaries, every other value is a `Given`


class Given(msgspec.Struct, frozen=True):
    """A value, and the file, variable or option that it comes from."""

    value: Any
    origin: str
    text: str | None = None  # as it is in the environment, before it was parsed
    names_key: bool = True  # whether an error names the key in addition to the origin


def given(option: str, value: Any) -> Given:
    """Return a value of the command line; errors name the option only."""
    return Given(value, option, names_key=False)


def from_file(path: Path) -> Tree:
    """Read a TOML file."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        problem = f"cannot be read as the configuration: {error.strerror or error}"
        raise ConfigurationError(str(path), "", problem) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), "", f"not TOML: {error}") from None
    return with_origin(tables, str(path))


def with_origin(table: Mapping[str, Any], origin: str) -> Tree:
    """Return a table whose values, also those of inner tables, have an origin."""
    tree: Tree = {}
    for key, value in table.items():
        if isinstance(value, dict):
            tree[key] = with_origin(value, origin)
        else:
            tree[key] = Given(value, origin)
    return tree


def from_environment(environment: Mapping[str, str]) -> Tree:
    """Read variables such as ``HOPLINE_NODE__CLUSTER__HEARTBEAT_INTERVAL=2``. A value that is not TOML is text."""
    tree: Tree = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(_PREFIX):
            continue
        key = variable.removeprefix(_PREFIX).lower()
        if _DOT not in key:
            _refuse_single_underscore(variable, key)
            continue
        value = Given(_toml_value(text), variable, text, names_key=False)
        put(tree, key.split(_DOT), value)
    return tree


def _refuse_single_underscore(variable: str, key: str) -> None:
    section, _, rest = key.partition("_")
    if section in SECTIONS and rest:
        suggestion = f"{_PREFIX}{section}{_DOT}{rest}".upper()
        problem = f"two underscores stand for a dot: did you mean {suggestion}?"
        raise ConfigurationError(variable, "", problem)


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    if parsed.keys() != {"value"}:  # the text continues with other keys
        return text
    return parsed["value"]


def put(tree: Tree, path: Iterable[str], value: Given) -> None:
    """Set the value at a path, and replace what is there."""
    *tables, last = path
    for name in tables:
        inner = tree.get(name)
        if not isinstance(inner, dict):
            inner = tree[name] = {}
        tree = inner
    tree[last] = value


def merged(below: Tree, above: Tree) -> Tree:
    """Return a tree with the values of both; those of `above` override those of `below`."""
    tree = dict(below)
    for key, value in above.items():
        overridden = tree.get(key)
        if isinstance(overridden, dict) and isinstance(value, dict):
            tree[key] = merged(overridden, value)
        else:
            tree[key] = value
    return tree


def first_origin(node: Given | Tree) -> Given:
    """Return a value, or the first one of a table."""
    while isinstance(node, dict):
        if not node:
            return Given(None, "")
        node = next(iter(node.values()))
    return node


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the closest name as a suggestion, or all names if none is close."""
    choices = sorted(names)
    matches = [choice for choice in choices if choice.startswith(word)]
    if not matches:
        matches = difflib.get_close_matches(word, choices, 1)
    if matches:
        closest = matches[0]
        return f"did you mean {closest}?"
    names_text = ", ".join(choices)
    return f"expected one of {names_text}"
