"""Payloads that are values: immutable, and equal to what encoding and decoding them would yield.

A node hands such a payload over to its own actors and hubs as the object that it is, without decoding a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

import msgspec

_PLAIN: frozenset[type] = frozenset({int, float, str, bytes, bool, type(None)})
_UNIONS = (Union, type(int | str))


def value_check(cls: type) -> Callable[[Any], bool] | None:
    """Return a function that checks whether an instance is a value; None for a class whose instances never are.

    The class must be a frozen struct of plain fields, and in the instance every field must hold what it is annotated
    with: an `int` in a field for a `float` would be decoded as a `float`, and a list in one for a `str` not at all.
    """
    if not issubclass(cls, msgspec.Struct):
        return None
    if hasattr(cls, "__post_init__"):  # decoding would call it again
        return None
    config = cls.__struct_config__
    if not config.frozen or config.dict:
        return None
    try:
        infos = msgspec.structs.fields(cls)
        fields = {info.name: _plain_types(info.type) for info in infos}
    except Exception:  # annotations that cannot be evaluated, at least not yet
        return None
    if not all(fields.values()):
        return None
    return _compiled_check(fields)


def _compiled_check(fields: dict[str, tuple[type, ...]]) -> Callable[[Any], bool]:
    """Return the check of the fields as one expression: a loop for every message would take as long as decoding it."""
    names: dict[str, Any] = {plain.__name__: plain for plain in _PLAIN}
    conditions = []
    for name, types in fields.items():
        actual = f"type(content.{name})"
        if len(types) == 1:
            (plain,) = types
            condition = f"{actual} is {plain.__name__}"
        else:
            condition = f"{actual} in {name}_types"
            names[f"{name}_types"] = types
        conditions.append(condition)
    expression = " and ".join(conditions) or "True"
    source = f"lambda content: {expression}"
    check: Callable[[Any], bool] = eval(source, names)  # noqa: S307
    return check


def _plain_types(annotation: Any) -> tuple[type, ...]:
    """Return the types that a field may hold; none if one of them is not plain."""
    is_union = get_origin(annotation) in _UNIONS
    types = get_args(annotation) if is_union else (annotation,)
    are_plain = _PLAIN.issuperset(types)
    return types if are_plain else ()
