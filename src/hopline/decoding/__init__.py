"""From frames to messages: many at once where they are plain, one by one with `hopline.wire` where they are not.

`segments` is the way in: the bytes of a segment go in, rows of the tables come out, in Arrow. `batches` decodes one
batch of records, and says how the other modules work together. Nothing here knows Spark.
"""

from hopline.decoding.careful import MISSING_FRAME

__all__ = ["MISSING_FRAME"]
