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
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable_name(text: Column) -> Column:
    """Return the name of a node, actor, kind or flow as one short line."""
    return _printable(text, LONGEST_NAME)


def printable_text(text: Column) -> Column:
    """Return any other text, such as a reason, as one line."""
    return _printable(text, LONGEST_TEXT)


def _printable(text: Column, limit: int) -> Column:
    valid = sf.make_valid_utf8(text)
    length = sf.length(valid)
    note = sf.concat(sf.lit("... ("), sf.format_number(length, 0), sf.lit(" characters)"))
    return sf.concat(_escaped(sf.substring(valid, 1, limit)), sf.when(length > limit, note).otherwise(""))


def _escaped(text: Column) -> Column:
    characters = sf.split(text, "")
    escaped = sf.array_join(sf.transform(characters, _escaped_character), "")
    return sf.when(text.rlike(_UNPRINTABLE), escaped).otherwise(text)


def _escaped_character(character: Column) -> Column:
    r"""Return a character, or the escape that Python writes for it: ``\n``, ``\x1b``, ``\u202e``, ``\U000e0001``."""
    code = sf.ascii(character)  # the code point, despite its name
    digits = sf.lower(sf.hex(code))
    escape = (
        sf.when(code < 0x100, sf.concat(sf.lit(r"\x"), sf.lpad(digits, 2, "0")))
        .when(code < 0x10000, sf.concat(sf.lit(r"\u"), sf.lpad(digits, 4, "0")))
        .otherwise(sf.concat(sf.lit(r"\U"), sf.lpad(digits, 8, "0")))
    )
    for short, written in _SHORT_ESCAPES.items():
        escape = sf.when(character == short, written).otherwise(escape)
    return sf.when(character.rlike(_UNPRINTABLE), escape).otherwise(character)
