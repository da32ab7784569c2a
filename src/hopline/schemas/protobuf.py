"""Protobuf messages: their shape, and the JSON Schema of their JSON form, both from the descriptor.

In a body fields have numbers and no names, so the shape has only the numbers, and renaming a field changes nothing. The
JSON Schema has the names of protobuf's JSON form, in which tools show such messages: `orderId` for `order_id`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_FIXED32: "fixed32",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_GROUP: "group",
    FieldDescriptor.TYPE_MESSAGE: "message",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_ENUM: "enum",
    FieldDescriptor.TYPE_SFIXED32: "sfixed32",
    FieldDescriptor.TYPE_SFIXED64: "sfixed64",
    FieldDescriptor.TYPE_SINT32: "sint32",
    FieldDescriptor.TYPE_SINT64: "sint64",
}
_WIDE = ("int64", "uint64", "fixed64", "sfixed64", "sint64")  # texts in protobuf's JSON, whose numbers are doubles

# -- the shape ---------------------------------------------------------------------------------------------------------


def protobuf_shape(descriptor: Descriptor) -> dict[str, Any]:
    """Return the shape of a message, with its fields by number."""
    return _message_shape(descriptor, ())


def _message_shape(descriptor: Descriptor, outer: tuple[str, ...]) -> dict[str, Any]:
    name = descriptor.full_name
    if name in outer:
        return {"outer": len(outer) - outer.index(name)}
    inside = (*outer, name)
    return {"object": {str(field.number): _field_shape(field, inside) for field in descriptor.fields}}


def _field_shape(field: FieldDescriptor, outer: tuple[str, ...]) -> dict[str, Any]:
    shape: Any = _TYPES[field.type]
    if field.message_type is not None:
        shape = _message_shape(field.message_type, outer)
    elif field.enum_type is not None:
        shape = {"enum": sorted(value.number for value in field.enum_type.values)}
    if field.is_repeated:
        shape = {"array": shape}
    if field.is_required:
        return {"type": shape}
    if field.has_default_value:
        return {"type": shape, "default": _plain(field.default_value)}
    return {"type": shape, "required": False}


def _plain(value: object) -> object:
    return value.decode("latin-1") if isinstance(value, bytes) else value


# -- the JSON Schema ---------------------------------------------------------------------------------------------------


def protobuf_components(descriptor: Descriptor) -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of a message and of those in its fields, by full name. They refer to each other."""
    components: dict[str, dict[str, Any]] = {}
    _add_components(descriptor, components)
    return components


def _add_components(descriptor: Descriptor, components: dict[str, dict[str, Any]]) -> None:
    if descriptor.full_name in components:
        return
    schema: dict[str, Any] = {"title": descriptor.name, "type": "object"}
    components[descriptor.full_name] = schema
    schema["properties"] = {field.json_name: _field_schema(field) for field in descriptor.fields}
    required = [field.json_name for field in descriptor.fields if field.is_required]
    if required:
        schema["required"] = required
    for field in descriptor.fields:
        if field.message_type is None:
            continue
        entry = field.message_type
        values = _values_of_map(field)
        inner = entry if values is None else values.message_type
        if inner is not None:
            _add_components(inner, components)


def _values_of_map(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the field of the values if a field is a map."""
    entry = field.message_type
    is_map = entry is not None and entry.GetOptions().map_entry
    return entry.fields_by_name["value"] if entry is not None and is_map else None


def _field_schema(field: FieldDescriptor) -> dict[str, Any]:
    values = _values_of_map(field)
    if values is not None:
        return {"type": "object", "additionalProperties": _value_schema(values)}
    schema = _value_schema(field)
    if field.is_repeated:
        return {"type": "array", "items": schema}
    if field.has_default_value and "$ref" not in schema:
        schema["default"] = _default(field)
    return schema


def _default(field: FieldDescriptor) -> object:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[field.default_value].name
    return _plain(field.default_value)


def _value_schema(field: FieldDescriptor) -> dict[str, Any]:
    if field.message_type is not None:
        return {"$ref": f"#/$defs/{field.message_type.full_name}"}
    if field.enum_type is not None:
        return {"enum": [value.name for value in field.enum_type.values]}
    name = _TYPES[field.type]
    if name in ("string", "bool"):
        return {"type": "string" if name == "string" else "boolean"}
    if name == "bytes":
        return {"type": "string", "contentEncoding": "base64"}
    if name in _WIDE:
        return {"type": ["string", "integer"], "format": name}
    return {"type": "number" if name in ("double", "float") else "integer", "format": name}
