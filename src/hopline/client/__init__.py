"""The message hub: sends messages, and receives the answers."""

from hopline.client.deadlines import TICK, Deadlines, Line
from hopline.client.handler_hub import HandlerHub
from hopline.client.hub import MessageHub, Timeout
from hopline.client.promise import Promise
from hopline.client.reply_spec import Callback, ReplySpec
from hopline.client.stream import Stream

__all__ = [
    "TICK",
    "Callback",
    "Deadlines",
    "HandlerHub",
    "Line",
    "MessageHub",
    "Promise",
    "ReplySpec",
    "Stream",
    "Timeout",
]
