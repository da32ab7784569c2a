"""The wire formats: frames to `Message` and back, pure functions of their input. No I/O, no clock.

>>> from hopline.wire import WireFormat, decode, encode
>>> from hopline.message import Message
>>> frames = encode(Message.flow_start(b"HELLO", b"world"), WireFormat.V5)
>>> decode(frames).body
b'world'
"""

from hopline.message import WireFormat
from hopline.wire import layouts
from hopline.wire.annotation import Annotation, annotate
from hopline.wire.codec import decode, encode, peek
from hopline.wire.detection import detect
from hopline.wire.errors import LocalError, Reason, RemoteError
from hopline.wire.layout import Empty, Entries, Field, Layout, Type, Word
from hopline.wire.limits import DEFAULT_LIMITS, Limits
from hopline.wire.reader import Reading
from hopline.wire.signature import MacAlgorithm, has_valid_signature, mac_input, sign, signature_of
from hopline.wire.view import RoutingView

__all__ = [
    "DEFAULT_LIMITS",
    "Annotation",
    "Empty",
    "Entries",
    "Field",
    "Layout",
    "Limits",
    "LocalError",
    "MacAlgorithm",
    "Reading",
    "Reason",
    "RemoteError",
    "RoutingView",
    "Type",
    "WireFormat",
    "Word",
    "annotate",
    "decode",
    "detect",
    "encode",
    "has_valid_signature",
    "layouts",
    "mac_input",
    "peek",
    "sign",
    "signature_of",
]
