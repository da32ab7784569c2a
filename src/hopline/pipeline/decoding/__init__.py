"""From frames to messages: by column expressions where these are certain, by the Python decoder where they are not.

>>> odd = decoded(records(capture)).where("odd")  # doctest: +SKIP
>>> careful(odd).where("code is not null").select("code", "frame_index", "detail")  # doctest: +SKIP
"""

from hopline.pipeline.decoding.careful import MISSING_FRAME, RECORD_COLUMNS, careful
from hopline.pipeline.decoding.decoder import decoded
from hopline.pipeline.decoding.records import ForeignCaptureError, records

__all__ = ["MISSING_FRAME", "RECORD_COLUMNS", "ForeignCaptureError", "careful", "decoded", "records"]
