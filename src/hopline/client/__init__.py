"""The message hub: sends messages, and brings home what answers them."""

from hopline.client.deadlines import TICK, Deadlines, Line
from hopline.client.expectation import Callback, Expectation
from hopline.client.hub import MessageHub
from hopline.client.promise import Promise
from hopline.client.stream import Stream

__all__ = ["TICK", "Callback", "Deadlines", "Expectation", "Line", "MessageHub", "Promise", "Stream"]
