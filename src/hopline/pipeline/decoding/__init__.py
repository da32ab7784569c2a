"""From frames to messages: many at once where they are plain, one by one with `hopline.wire` where they are not.

`segments` is the way in from Spark: segments as bytes go in, rows of the tables come out. `batches` decodes one batch
of records, and says how the other modules work together.
"""

from hopline.pipeline.decoding.careful import MISSING_FRAME

__all__ = ["MISSING_FRAME"]
