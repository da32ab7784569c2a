"""Write down the public API: every exported name with its signature, its fields and its public methods.

`python -m tools.public_api` rewrites the snapshot, and `tests/test_public_api.py` fails as long as it differs from the
code: whoever changes the API sees so in the diff.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

SNAPSHOT = Path(__file__).parent.parent / "tests" / "data" / "public_api.txt"
MODULES = (
    "hopline",
    "hopline.errors",
    "hopline.message",
    "hopline.wire",
    "hopline.security",
    "hopline.transport",
    "hopline.testing",
)

_PLAIN = (type(None), bool, int, float, str, bytes)


def public_api() -> str:
    """Return the public API as text, one line for each name, method and member of an enumeration."""
    lines: list[str] = []
    for module_name in MODULES:
        lines.append(module_name)
        module = importlib.import_module(module_name)
        for name in sorted(_exported(module)):
            lines += [f"    {line}" for line in _described(name, getattr(module, name))]
    return "\n".join(lines) + "\n"


def _exported(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [name for name in own if not name.startswith("_")]


def _described(name: str, value: object) -> Iterator[str]:
    if isinstance(value, type) and issubclass(value, enum.Enum):
        members = ", ".join(value.__members__)
        yield f"class {name}: {members}"
    elif isinstance(value, type):
        yield f"class {name}{_signature(value)}"
        yield from (f"    {line}" for line in _methods(value))
    elif inspect.isfunction(value):
        yield f"def {name}{_signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def _methods(cls: type) -> Iterator[str]:
    for name in sorted(dir(cls)):
        if name.startswith("_"):
            continue
        defined = inspect.getattr_static(cls, name)
        if isinstance(defined, property):
            yield f"{name}: property"
        elif isinstance(defined, (classmethod, staticmethod)):
            yield f"{type(defined).__name__} {name}{_signature(defined.__func__)}"
        elif inspect.iscoroutinefunction(defined):
            yield f"async def {name}{_signature(defined)}"
        elif inspect.isfunction(defined):
            yield f"def {name}{_signature(defined)}"


def _signature(value: object) -> str:
    """Return the parameters with their names, kinds and defaults: annotations are printed otherwise by each Python."""
    if isinstance(value, type) and issubclass(value, Exception) and not inspect.isfunction(value.__init__):
        return "(...)"  # an exception that takes anything
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    parameters = [_plain(parameter) for parameter in signature.parameters.values()]
    return str(inspect.Signature(parameters))


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if default is not inspect.Parameter.empty and not isinstance(default, _PLAIN):
        default = ...
    elif isinstance(default, enum.Enum):
        default = default.value
    return parameter.replace(annotation=inspect.Parameter.empty, default=default)


def main() -> None:
    """Rewrite the snapshot."""
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
    print(f"wrote {SNAPSHOT.name}")


if __name__ == "__main__":
    main()
