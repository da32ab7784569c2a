"""The columns of a span, and the attributes that spans, events and links carry."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from hopline.export.text import printable_name, printable_text

PRODUCER, CONSUMER = "PRODUCER", "CONSUMER"
OK, ERROR = "OK", "ERROR"

_TEXT, _LONG, _INT, _FLAG = StringType(), LongType(), IntegerType(), BooleanType()

ATTRIBUTE = StructType(
    [
        StructField("key", _TEXT),
        StructField("text", _TEXT),  # one of these three has a value
        StructField("number", _LONG),
        StructField("flag", _FLAG),
    ]
)
ATTRIBUTES = ArrayType(ATTRIBUTE)
EVENT = StructType(
    [StructField("time_us", _LONG), StructField("name", _TEXT), StructField("attributes", ATTRIBUTES)],
)
LINK = StructType([StructField("span_id", _TEXT), StructField("attributes", ATTRIBUTES)])
SPANS = StructType(
    [
        StructField("trace_id", _TEXT),
        StructField("span_id", _TEXT),
        StructField("parent_span_id", _TEXT),  # null: nothing before it is known
        StructField("kind", _TEXT),
        StructField("name", _TEXT),
        StructField("node", _TEXT),
        StructField("start_us", _LONG),  # by the node's own clock, since 1970; 0 if unknown
        StructField("end_us", _LONG),
        StructField("attributes", ATTRIBUTES),
        StructField("events", ArrayType(EVENT)),
        StructField("dropped_events", _INT),
        StructField("links", ArrayType(LINK)),  # to spans of the same trace
        StructField("status", _TEXT),  # OK, ERROR or null
        StructField("status_text", _TEXT),
    ]
)


def name(key: str, value: Column | str) -> Column:
    """Return an attribute that names something. A value, here and below, is a column or the name of one."""
    return _attribute(key, text=printable_name(_column(value)))


def word(key: str, value: Column | str) -> Column:
    """Return an attribute whose value is one of Hopline's own words, which need no escaping."""
    return _attribute(key, text=_column(value))


def text(key: str, value: Column | str) -> Column:
    """Return an attribute with a longer text."""
    return _attribute(key, text=printable_text(_column(value)))


def number(key: str, value: Column | str) -> Column:
    """Return an attribute that is a whole number."""
    return _attribute(key, number=_column(value))


def flag(key: str, value: Column | str) -> Column:
    """Return an attribute that is true or false."""
    return _attribute(key, flag=_column(value))


def true_flag(key: str, condition: Column) -> Column:
    """Return an attribute that is true where a condition holds, and is left out where it does not."""
    return flag(key, sf.when(condition, True))


def attributes(*columns: Column) -> Column:
    """Return the attributes that have a value."""
    return sf.filter(sf.array(*columns), _has_value)


def _has_value(attribute: Column) -> Column:
    has_text = attribute["text"].isNotNull()
    has_number = attribute["number"].isNotNull()
    has_flag = attribute["flag"].isNotNull()
    return has_text | has_number | has_flag


def _column(value: Column | str) -> Column:
    return sf.col(value) if isinstance(value, str) else value


def _attribute(key: str, **value: Column) -> Column:
    nothing = sf.lit(None)
    return sf.struct(
        sf.lit(key).alias("key"),
        value.get("text", nothing).cast(_TEXT).alias("text"),
        value.get("number", nothing).cast(_LONG).alias("number"),
        value.get("flag", nothing).cast(_FLAG).alias("flag"),
    )
