"""The message hub: sends messages, and brings home what answers them."""

from hopline.client.deadlines import TICK, Deadlines, Line
from hopline.client.expectation import Callback, Expectation
from hopline.client.handler_hub import HandlerHub
from hopline.client.hub import MessageHub, Timeout
from hopline.client.promise import Promise
from hopline.client.stream import Stream

__all__ = [
    "TICK",
    "Callback",
    "Deadlines",
    "Expectation",
    "HandlerHub",
    "Line",
    "MessageHub",
    "Promise",
    "Stream",
    "Timeout",
]
