r"""Untrusted text, made safe for trace viewers: what `hopline.message.printable` does, for columns.

Identities, actors, correlation ids and reasons may hold anything. In a file, JSON would escape the worst of it; but a
trace is shown by other programs, in a browser, a terminal or the log of a collector. So control characters,
bidirectional overrides and whatever else is not printable are escaped in the value itself (``\x1b``, ``\u202e``), and
what is long is cut. Printable text, of any script, stays as it is.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from hopline.message.printable import LONGEST_NAME, LONGEST_TEXT

_UNPRINTABLE = r"[\p{C}\p{Z}&&[^ ]]"
_CONTROL_ESCAPES = {
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
}
_SHORTER_ESCAPES = (  # for code points below a bound: prefix and number of digits; the narrower one last, as it wins
    (0x10000, r"\u", 4),
    (0x100, r"\x", 2),
)


def printable_name(text: Column) -> Column:
    """Return the name of a node, actor, kind or flow as one short line."""
    return _printable(text, LONGEST_NAME)


def printable_text(text: Column) -> Column:
    """Return any other text, such as a reason, as one line."""
    return _printable(text, LONGEST_TEXT)


def _printable(text: Column, limit: int) -> Column:
    valid = sf.make_valid_utf8(text)
    length = sf.length(valid)
    is_cut = length > limit
    written_length = sf.format_number(length, 0)
    note = sf.format_string("... (%s characters)", written_length)
    beginning = sf.substring(valid, 1, limit)
    return sf.concat(
        _escaped(beginning),
        sf.when(is_cut, note).otherwise(""),
    )


def _escaped(text: Column) -> Column:
    characters = sf.split(text, "")
    escaped_characters = sf.transform(characters, _escaped_character)
    escaped = sf.array_join(escaped_characters, "")
    is_unprintable = text.rlike(_UNPRINTABLE)
    return sf.when(is_unprintable, escaped).otherwise(text)


def _escaped_character(character: Column) -> Column:
    r"""Return a character, or the escape that Python writes for it: ``\n``, ``\x1b``, ``\u202e``, ``\U000e0001``."""
    code = sf.ascii(character)  # the code point, despite its name
    digits = sf.lower(sf.hex(code))
    escape = _numeric_escape(r"\U", digits, 8)
    for end, prefix, width in _SHORTER_ESCAPES:
        shorter = _numeric_escape(prefix, digits, width)
        escape = sf.when(code < end, shorter).otherwise(escape)
    for control, written in _CONTROL_ESCAPES.items():
        is_control = character == control
        escape = sf.when(is_control, written).otherwise(escape)
    is_unprintable = character.rlike(_UNPRINTABLE)
    return sf.when(is_unprintable, escape).otherwise(character)


def _numeric_escape(prefix: str, digits: Column, width: int) -> Column:
    padded = sf.lpad(digits, width, "0")
    return sf.concat(sf.lit(prefix), padded)
