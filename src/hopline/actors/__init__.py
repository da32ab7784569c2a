"""Actors, their handlers, and the host that runs them."""

from hopline.actors.actor import Actor, handler_map
from hopline.actors.context import HandlerContext
from hopline.actors.flow import current_message
from hopline.actors.handler import HandlerDefinition, handler
from hopline.actors.host import ActorHost, HandlerCancelledError
from hopline.actors.log import CorrelationFilter, flow_log
from hopline.actors.results import exception_result, receipt, result
from hopline.actors.runtime import ActorRuntime

__all__ = [
    "Actor",
    "ActorHost",
    "ActorRuntime",
    "CorrelationFilter",
    "HandlerCancelledError",
    "HandlerContext",
    "HandlerDefinition",
    "current_message",
    "exception_result",
    "flow_log",
    "handler",
    "handler_map",
    "receipt",
    "result",
]
