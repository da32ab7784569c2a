"""What the emitters share: names, orders, and small pieces of code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hopline.message import Message
from hopline.wire.layout import Field, Type
from hopline.wire.layouts import V5
from hopline.wire.shapes import is_reserved
from hopline.wire.view import RoutingView

ENTRY_CLASS = {"callback_point": "MessageIdentifier", "routing": "RoutingEntry"}
ENTRY_ORDER = {"callback_point": ("identity", "version", "partition"), "routing": ("uri", "identity")}
VIEW_ORDER = RoutingView._fields[:-2]  # without the format and the frames
MESSAGE_ORDER = Message.__struct_fields__[:-1]  # without the format
ABSENT = {"callback_key": "0", "domain": '""'}  # every other absent field is empty bytes
READERS = {Type.U16: "_u16", Type.I32: "_i32", Type.I64: "_i64", Type.WORDS: "_words"}
STRUCT = {Type.U16: "H", Type.I32: "i", Type.I64: "q", Type.WORDS: "4H"}


def local(name: str) -> str:
    """Turn a row's name into the name of a variable."""
    return name.replace(".", "_")


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Shift lines to the right."""
    return ["    " * by + line for line in lines]


def names_of(row: Field) -> list[str]:
    """Name what a row holds."""
    return [word.name for word in row.words] or [row.name]


def unused(name: str) -> bool:
    """Return whether a number of the meta frame is never used."""
    return is_reserved(name) or name == "version.wire_format"


def word_value(name: str) -> str:
    """Return the expression for one word of a packed frame."""
    if is_reserved(name):
        return "0"
    if name.endswith(".divisor"):
        return str(next(entries.divisor for entries in V5.entries if entries.name == name.split(".")[0]))
    if name == "body.count":
        return "1"
    return local(name) if "." in name else f"message.{name}"


def remembered(signature: str) -> Iterator[str]:
    """Emit the head of a function that remembers its results."""
    yield "@lru_cache(maxsize=REMEMBERED_LISTS)"
    yield f"def {signature}:"


def write_checks(*odd: str) -> Iterator[str]:
    """Emit the refusal of what is too large or of the wrong type. Joining or packing refuses headers that are no bytes.

    It does not refuse a bytearray, nor joining a memoryview; to ask each for its class would cost eight percent.
    """
    yield "if ("
    yield from indented([odd[0], *(f"or {condition}" for condition in odd[1:])])
    yield "):"
    yield "    raise FastPathMiss"


def message_arguments(present: set[str]) -> Iterator[str]:
    """Emit the arguments of a message, in its own order."""
    for name in MESSAGE_ORDER:
        if name == "bodies":
            yield "(body,),"
        else:
            yield f"{name}," if name in present else f"{ABSENT.get(name, 'b' + chr(34) * 2)},"
    yield "_FORMAT,"
