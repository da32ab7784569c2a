"""Text for traces is what `hopline.message.printable` makes of it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from hopline.export.text import printable_name, printable_text
from hopline.message.printable import LONGEST_NAME, LONGEST_TEXT, printable
from tests.export.hostile import FLOW, IDENTITY, NODE, REASON

TEXTS = [
    *("", " ", "plain", "é漢😀 ‰", "\\", "\\n", '"', "'", "a b\u00a0c\u3000d"),
    *(NODE, IDENTITY, FLOW, REASON),
    "".join(map(chr, range(0x300))),
    "\u200b\u200e\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\ufff9\ufffe\U000e0001\U0010ffff",
    "x" * LONGEST_NAME,
    "😀" * (LONGEST_NAME + 1),
    "\x1b" * (LONGEST_TEXT + 1_000),
]


def test_columns_are_escaped_and_cut_as_texts_are(spark: SparkSession) -> None:
    table = spark.createDataFrame(list(enumerate(TEXTS)), "nth int, text string").repartition(2)
    text = sf.col("text")
    rows = table.select("nth", printable_name(text).alias("name"), printable_text(text).alias("text")).collect()
    for row in rows:
        assert row.name == printable(TEXTS[row.nth], LONGEST_NAME)
        assert row.text == printable(TEXTS[row.nth], LONGEST_TEXT)
    assert len(rows) == len(TEXTS)


def test_bytes_that_are_no_text_become_text(spark: SparkSession) -> None:
    broken = spark.range(1).select(printable_name(sf.unhex(sf.lit("61FFEDA08062")).cast("string")).alias("name"))
    assert broken.collect()[0].name.encode("utf-8").decode("utf-8").isprintable()


def test_nothing_stays_nothing(spark: SparkSession) -> None:
    assert spark.range(1).select(printable_name(sf.lit(None).cast("string")).alias("name")).collect()[0].name is None
