"""Where values come from: a file, the environment, the command line. Later ones win."""

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

Tree = dict[str, Any]  # tables as dictionaries; every other value is a `Given`


class Given(msgspec.Struct, frozen=True):
    """A value, who said it, and its text if it was told as text."""

    value: Any
    origin: str
    text: str | None = None
    names_key: bool = True  # whether the key is to be named beside the origin


def given(option: str, value: Any) -> Given:
    """Give a value of the command line; its option says which it is."""
    return Given(value, option, names_key=False)


def from_file(path: Path) -> Tree:
    """Read a TOML file."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(str(path), "", error.strerror or str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), "", f"not TOML: {error}") from None
    return _planted(tables, str(path))


def _planted(table: Mapping[str, Any], origin: str) -> Tree:
    return {
        key: _planted(value, origin) if isinstance(value, dict) else Given(value, origin)
        for key, value in table.items()
    }


def from_environment(environment: Mapping[str, str]) -> Tree:
    """Read variables such as ``HOPLINE_NODE__CLUSTER__HEARTBEAT_INTERVAL=2``. Values are TOML, or else text."""
    tree: Tree = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(_PREFIX):
            continue
        key = variable.removeprefix(_PREFIX).lower()
        if _DOT not in key:
            _refuse_single_underscore(variable, key)
            continue
        put(tree, key.split(_DOT), Given(_toml_value(text), variable, text, names_key=False))
    return tree


def _refuse_single_underscore(variable: str, key: str) -> None:
    section, _, rest = key.partition("_")
    if section in SECTIONS and rest:
        meant = f"{_PREFIX}{section}{_DOT}{rest}".upper()
        raise ConfigurationError(variable, "", f"two underscores stand for a dot: did you mean {meant}?")


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def put(tree: Tree, path: Iterable[str], value: Given) -> None:
    """Set one value, whatever stood there."""
    *tables, last = path
    for name in tables:
        inner = tree.get(name)
        if not isinstance(inner, dict):
            inner = tree[name] = {}
        tree = inner
    tree[last] = value


def merged(below: Tree, above: Tree) -> Tree:
    """Lay one tree over another."""
    tree = dict(below)
    for key, value in above.items():
        known = tree.get(key)
        tree[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return tree


def first_origin(node: Given | Tree) -> Given:
    """Find out who said a value, or the first one of a table."""
    while isinstance(node, dict):
        if not node:
            return Given(None, "")
        node = next(iter(node.values()))
    return node


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Guess what was meant, or list what there is."""
    choices = sorted(known)
    close = [choice for choice in choices if choice.startswith(word)] or difflib.get_close_matches(word, choices, 1)
    return f"did you mean {close[0]}?" if close else f"there is {', '.join(choices)}"
