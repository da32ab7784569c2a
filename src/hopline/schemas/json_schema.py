"""The JSON Schemas of payload classes, each written by the library that the class belongs to.

msgspec describes structs, dataclasses and typed dicts, pydantic its models; protobuf messages are described by their
descriptors. All schemas are components of one document and refer to each other. They are written in draft 7, which
AsyncAPI builds on, so the few newer words are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from hopline.message import RAW, payload_type
from hopline.schemas.protobuf import protobuf_components
from hopline.schemas.shape import is_model, is_protobuf

Schema: TypeAlias = dict[str, Any]
Components: TypeAlias = dict[str, Schema]

_REF = "#/$defs/"  # precedes the names of components until they are put into the document


class Schemas(msgspec.Struct, frozen=True):
    """The schemas of some payload classes, and the components that they refer to."""

    by_class: dict[type, Schema]  # raw and indescribable payloads have an empty schema, which allows anything
    components: Components


def schemas_of(classes: Iterable[type], ref_prefix: str) -> Schemas:
    """Return the schemas of payload classes, which are references to components wherever these have a name.

    Args:
        classes: The payload classes.
        ref_prefix: What precedes the name of a component in a reference, such as ``#/components/schemas/``.
    """
    described = [cls for cls in classes if payload_type(cls).serializer is not RAW]
    messages = [cls for cls in described if is_protobuf(cls)]
    models = [cls for cls in described if is_model(cls)]
    others = [cls for cls in described if not (is_protobuf(cls) or is_model(cls))]
    by_class: dict[type, Schema] = {cls: {} for cls in classes}
    components: Components = {}
    for own in (_of_msgspec(others), _of_pydantic(models), _of_protobuf(messages)):
        names = {_REF + name: ref_prefix + _unique(name, components) for name in own.components}
        for cls, schema in own.by_class.items():
            by_class[cls] = _in_draft_7(schema, names)
        for name, schema in own.components.items():
            new_name = names[_REF + name].removeprefix(ref_prefix)
            components[new_name] = _in_draft_7(schema, names)
    return Schemas(by_class, components)


# -- each library ------------------------------------------------------------------------------------------------------


def _of_msgspec(classes: list[type]) -> Schemas:
    describable = [cls for cls in classes if _is_describable(cls)]
    schemas, components = msgspec.json.schema_components(
        describable, ref_template=f"{_REF}{{name}}", schema_hook=_anything
    )
    return Schemas(dict(zip(describable, schemas, strict=True)), components)


def _is_describable(cls: type) -> bool:
    try:
        msgspec.json.schema(cls, schema_hook=_anything)
    except (TypeError, NameError):
        return False
    return True


def _anything(_: type) -> Schema:
    """Return the schema of a type that only the application's own code can write."""
    return {}


def _of_pydantic(models: list[Any]) -> Schemas:
    if not models:
        return Schemas({}, {})
    from pydantic.json_schema import JsonSchemaMode, models_json_schema  # it is installed if there are models

    mode: JsonSchemaMode = "validation"
    schemas, definitions = models_json_schema([(model, mode) for model in models], ref_template=f"{_REF}{{model}}")
    return Schemas({model: schemas[model, mode] for model in models}, definitions.get("$defs", {}))


def _of_protobuf(messages: list[Any]) -> Schemas:
    by_class: dict[type, Schema] = {}
    components: Components = {}
    for cls in messages:
        by_class[cls] = {"$ref": _REF + cls.DESCRIPTOR.full_name}
        components |= protobuf_components(cls.DESCRIPTOR)
    return Schemas(by_class, components)


# -- one document ------------------------------------------------------------------------------------------------------


def _unique(name: str, taken: Mapping[str, object]) -> str:
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _in_draft_7(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema with the names of the document, and in the words of draft 7.

    There the items of a tuple are `items`, and what follows them is `additionalItems`. A `discriminator` is no word of
    JSON Schema: it repeats what the tag of each alternative says.
    """
    if isinstance(schema, list | tuple):
        return [_in_draft_7(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = dict(schema)
    if "prefixItems" in schema:
        if "items" in schema:
            schema["additionalItems"] = schema["items"]
        schema["items"] = schema.pop("prefixItems")
    if isinstance(schema.get("discriminator"), dict):
        del schema["discriminator"]
    if schema.get("$ref") in names:
        schema["$ref"] = names[schema["$ref"]]
    return {word: _in_draft_7(value, names) for word, value in schema.items()}
