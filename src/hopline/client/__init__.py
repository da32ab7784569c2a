"""The message hub: sends messages, and receives the answers."""

from hopline.client.asking import Asking, AskOptions, Partition, SendOptions, Timeout
from hopline.client.deadlines import TICK, Deadlines, Line
from hopline.client.handler_hub import HandlerHub
from hopline.client.hub import MessageHub
from hopline.client.promise import Promise
from hopline.client.reply_spec import Callback, ReplySpec
from hopline.client.retry import Retry
from hopline.client.stream import Stream

__all__ = [
    "TICK",
    "AskOptions",
    "Asking",
    "Callback",
    "Deadlines",
    "HandlerHub",
    "Line",
    "MessageHub",
    "Partition",
    "Promise",
    "ReplySpec",
    "Retry",
    "SendOptions",
    "Stream",
    "Timeout",
]
