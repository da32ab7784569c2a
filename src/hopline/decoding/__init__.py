"""Decoding captured frames in bulk: many at once where they are plain, one by one with `hopline.wire` otherwise.

Begin with `segments`, which turns the bytes of a segment into Arrow tables. `batches` decodes one batch of records, and
explains how the other modules work together. Nothing here imports Spark.
"""

from hopline.decoding.careful import MISSING_FRAME

__all__ = ["MISSING_FRAME"]
