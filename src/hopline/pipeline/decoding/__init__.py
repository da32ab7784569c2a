"""From frames to messages: many at once where they are plain, one by one with `hopline.wire` where they are not.

>>> decoded(records(capture), "rejects").select("code", "frame_index", "detail")  # doctest: +SKIP
"""

from hopline.pipeline.decoding.careful import MISSING_FRAME
from hopline.pipeline.decoding.decoder import decoded
from hopline.pipeline.decoding.records import ForeignCaptureError, records

__all__ = ["MISSING_FRAME", "ForeignCaptureError", "decoded", "records"]
