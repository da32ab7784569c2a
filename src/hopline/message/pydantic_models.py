"""Pydantic models in MessagePack and JSON, as msgspec's hooks for classes that it does not know itself.

Pydantic is never imported here: an instance of a model exists only where somebody else has imported it.
"""

from __future__ import annotations

import sys
from typing import Any


def dump(value: Any) -> Any:
    """Return the fields of a pydantic model by their aliases, for MessagePack, which has bytes and times of its own.

    Raises:
        TypeError: The value is something else that msgspec cannot encode.
    """
    return _model(value).model_dump(by_alias=True)


def dump_for_json(value: Any) -> Any:
    """Return the fields of a pydantic model as JSON has them, for JSON; like `dump` otherwise."""
    return _model(value).model_dump(mode="json", by_alias=True)


def load(cls: Any, fields: Any) -> Any:
    """Return the pydantic model of these fields. For any other class return the fields, which msgspec then refuses."""
    return cls.model_validate(fields) if _is_model(cls) else fields


def _model(value: Any) -> Any:
    if not _is_model(type(value)):
        raise TypeError(f"objects of type {type(value).__qualname__} cannot be encoded")
    return value


def _is_model(cls: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)
