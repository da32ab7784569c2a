"""The shape of a payload: what its bodies look like, and nothing else.

Theory of operation. Two nodes understand each other if they expect the same bodies, however their classes are called
and written. So a shape says what is in a body: the fields by the name that they have there, their types, and their
defaults. What makes no difference to a body is left out: names of classes, documentation, the order of named fields,
limits such as `ge=0`, and whether an array becomes a list, a set or a tuple. A struct, a dataclass and a pydantic model
with the same fields have the same shape.

A shape consists of plain values, so that it can be written as JSON and compared:

* a text, for a plain type: ``"integer"``, ``"text"``, ``"bytes"``, ...
* ``{"array": shape}``, ``{"tuple": [shape, ...]}``, ``{"map": [key, value]}``, ``{"union": [shape, ...]}``
* ``{"enum": [value, ...]}``, for enumerations and literals
* ``{"object": {name: field}}``, where a field is ``{"type": shape}``, with ``"default"`` if it has one, or
  ``"required": False`` if it may be missing without having one
* ``{"outer": n}``, for a class that contains itself: the n-th object around this place

The classes are described by msgspec, so that a shape does not depend on the version of Python. Pydantic models are
recognised by their attributes, because pydantic need not be installed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from hopline.schemas.protobuf import protobuf_shape

Shape: TypeAlias = "str | dict[str, Any]"

OTHER = "other"  # a type or a default that only the application's own code can write

_PLAIN: dict[type[inspect.Type], str] = {
    inspect.AnyType: "any",
    inspect.RawType: "any",
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "text",
    inspect.BytesType: "bytes",
    inspect.ByteArrayType: "bytes",
    inspect.MemoryViewType: "bytes",
    inspect.DateTimeType: "datetime",
    inspect.DateType: "date",
    inspect.TimeType: "time",
    inspect.TimeDeltaType: "duration",
    inspect.UUIDType: "uuid",
    inspect.DecimalType: "decimal",
    inspect.ExtType: "extension",
}
_EMPTY_FACTORIES = (list, dict, set, frozenset, tuple)

_Objects: TypeAlias = tuple[type, ...]  # the classes around a place, the innermost last


def shape_of(cls: type) -> Shape | None:
    """Return the shape of a class; None if it cannot be described."""
    if is_protobuf(cls):
        return protobuf_shape(cls.DESCRIPTOR)  # type: ignore[attr-defined]
    try:
        return _class_shape(cls, ())
    except (TypeError, NameError, AttributeError):  # annotations that cannot be read, or that msgspec does not take
        return None


def is_model(cls: type) -> bool:
    """Return whether a class is a model of pydantic."""
    return hasattr(cls, "model_fields")


def is_protobuf(cls: type) -> bool:
    """Return whether a class is a generated message of protobuf."""
    return hasattr(cls, "DESCRIPTOR")


def sort_key(shape: object) -> bytes:
    """Return the bytes by which plain values are sorted, compared and hashed."""
    return msgspec.json.encode(shape, order="sorted")


def _class_shape(cls: type, objects: _Objects) -> Shape:
    if is_model(cls):
        return _model_shape(cls, objects)
    return _shape(inspect.type_info(cls), objects)


def _shape(described: inspect.Type, objects: _Objects) -> Shape:
    kind = type(described)
    if kind in _PLAIN:
        return _PLAIN[kind]
    match described:
        case inspect.Metadata(type=inner):
            return _shape(inner, objects)
        case inspect.UnionType(types=types):
            return _union(_shape(each, objects) for each in types)
        case inspect.EnumType(cls=cls):
            return _enum(member.value for member in cls)
        case inspect.LiteralType(values=values):
            return _enum(values)
        case inspect.TupleType(item_types=types):
            return {"tuple": [_shape(each, objects) for each in types]}
        case inspect.CollectionType(item_type=item):
            return {"array": _shape(item, objects)}
        case inspect.DictType(key_type=key, value_type=value):
            return {"map": [_shape(key, objects), _shape(value, objects)]}
        case inspect.CustomType(cls=cls) if is_model(cls):
            return _model_shape(cls, objects)
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() | inspect.NamedTupleType():
            return _object_shape(described, objects)
    return OTHER


def _union(shapes: Iterable[Shape]) -> Shape:
    different = {sort_key(shape): shape for shape in shapes}
    if len(different) == 1:
        return next(iter(different.values()))
    return {"union": [different[key] for key in sorted(different)]}


def _enum(values: Iterable[object]) -> Shape:
    return {"enum": sorted(map(_plain, values), key=sort_key)}


def _object_shape(
    described: inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType,
    objects: _Objects,
) -> Shape:
    cls = described.cls
    if cls in objects:
        return _outer(cls, objects)
    inside = (*objects, cls)
    fields = {}
    if isinstance(described, inspect.StructType) and described.tag is not None:
        fields[str(described.tag_field)] = {"type": _enum([described.tag])}
    for field in described.fields:
        shape = _shape(field.type, inside)
        fields[field.encode_name] = _field(
            shape,
            is_required=field.required,
            default=field.default,
            factory=field.default_factory,
        )
    is_array = isinstance(described, inspect.NamedTupleType) or getattr(described, "array_like", False)
    return {"tuple": list(fields.values())} if is_array else {"object": fields}


def _model_shape(cls: Any, objects: _Objects) -> Shape:
    """Return the shape of a pydantic model."""
    if cls in objects:
        return _outer(cls, objects)
    inside = (*objects, cls)
    fields = {}
    for name, field in cls.model_fields.items():
        annotation = Any if field.annotation is None else field.annotation
        is_required = field.is_required()
        factory = field.default_factory
        has_default = not is_required and factory is None
        fields[field.alias or name] = _field(
            _annotation_shape(annotation, inside),
            is_required=is_required,
            default=field.default if has_default else msgspec.NODEFAULT,
            factory=msgspec.NODEFAULT if factory is None else factory,
        )
    return {"object": fields}


def _annotation_shape(annotation: Any, objects: _Objects) -> Shape:
    try:
        return _shape(inspect.type_info(annotation), objects)
    except TypeError:  # a type of pydantic's own, which msgspec refuses in a union
        return OTHER


def _outer(cls: type, objects: _Objects) -> Shape:
    return {"outer": len(objects) - objects.index(cls)}


def _field(shape: Shape, *, is_required: bool, default: Any, factory: Any) -> dict[str, Any]:
    if is_required:
        return {"type": shape}
    if default is not msgspec.NODEFAULT:
        return {"type": shape, "default": _plain(default)}
    if factory in _EMPTY_FACTORIES:
        return {"type": shape, "default": _plain(factory())}
    return {"type": shape, "required": False}


def _plain(value: object) -> Any:
    try:
        return msgspec.to_builtins(value, order="deterministic", enc_hook=lambda _: OTHER)
    except (TypeError, ValueError):
        return OTHER
