"""Payloads that are values: nobody can change them, and writing and reading would give an equal one.

Such a payload may be handed over inside a process as the object that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

import msgspec

_PLAIN: frozenset[type] = frozenset({int, float, str, bytes, bool, type(None)})
_UNIONS = (Union, type(int | str))


def value_check(cls: type) -> Callable[[Any], bool] | None:
    """Make what tells whether an instance is a value; None for a class whose instances never are.

    It has to be a frozen struct of plain fields, and of an instance every field must hold what it is annotated with: an
    `int` in a field for a `float` would be read as a `float`, and a list in one for a `str` not at all.
    """
    if not issubclass(cls, msgspec.Struct) or hasattr(cls, "__post_init__"):  # which reading would call again
        return None
    config = cls.__struct_config__
    if not config.frozen or config.dict:
        return None
    try:
        fields = {field.name: _plain_types(field.type) for field in msgspec.structs.fields(cls)}
    except Exception:  # annotations that cannot be read, at least not yet
        return None
    if not all(fields.values()):
        return None
    # Written out, for it is asked for every message: a loop over the fields would take as long as reading the payload.
    checks = [
        f"type(content.{name}) is {types[0].__name__}" if len(types) == 1 else f"type(content.{name}) in {name}_types"
        for name, types in fields.items()
    ]
    names: dict[str, Any] = {one.__name__: one for one in _PLAIN} | {
        f"{name}_types": types for name, types in fields.items()
    }
    check: Callable[[Any], bool] = eval(f"lambda content: {' and '.join(checks) or True}", names)  # noqa: S307
    return check


def _plain_types(annotation: Any) -> tuple[type, ...]:
    """Give the types that a field may hold; none if one of them is not plain."""
    types = get_args(annotation) if get_origin(annotation) in _UNIONS else (annotation,)
    return types if _PLAIN.issuperset(types) else ()
