"""Which classes can be payload classes, for type checkers. At run time a payload class is one that `payload` marked."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeAlias

import msgspec


class DataclassLike(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class AttrsLike(Protocol):
    """An instance of a class made by attrs."""

    __attrs_attrs__: ClassVar[Any]


class PydanticLike(Protocol):
    """An instance of a pydantic model."""

    def model_dump(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        ...


class ProtobufLike(Protocol):
    """A message of a class that the protobuf compiler generated."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's own name
        """Return the message in protobuf's wire format."""
        ...


AnyPayload: TypeAlias = msgspec.Struct | DataclassLike | AttrsLike | PydanticLike | ProtobufLike | bytes
"""What can be sent, as far as types can tell: a number or a text is an error already for a type checker.

An instance of any other class that has a serializer of its own is sent as a message: `to_message` takes everything.
"""
