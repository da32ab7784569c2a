"""How a hub makes a request: the message of a payload, its delivery, and the promise of its answer.

A request carries the callback point that its answer is recognised by, the identity of the hub, and a callback key, by
which the hub finds the promise again. A message that is made of a payload lives as long as its sender waits.

`Requests.promise` runs for every request, and is written in place for payloads, the common case.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any, NoReturn

import msgspec

from hopline.client.asking import Partition, Timeout
from hopline.client.lifetimes import seconds_of, ticks_of
from hopline.client.open_requests import OpenRequests
from hopline.client.promise import Promise
from hopline.client.reply_spec import Callback, ReplySpec, reply_spec_of
from hopline.message import (
    PAYLOAD_MARK,
    ArgumentError,
    Distribution,
    Message,
    NotRunningError,
    Version,
    as_value,
    new_flow_id,
    payload_type,
    to_message,
)
from hopline.routing import NO_DEADLINE, TICKS_PER_SECOND, Delivery, delivery_of


class Requests:
    """Makes the requests of one hub.

    Args:
        hub: The identity of the hub.
        node: The identity of its node.
        open_requests: Where promises wait for their answers.
        loop: The event loop of the node; requests can be made on it only.
        clock: The node's clock.
        request_timeout: Seconds that a request waits that says nothing else.
        sent: Looked up for every payload class that is sent.
    """

    def __init__(
        self,
        hub: bytes,
        node: bytes,
        open_requests: OpenRequests,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        *,
        request_timeout: float,
        sent: Mapping[type, object] | None,
    ) -> None:
        self.is_open = True
        self.new_promise: Callable[..., Promise[Any]] = Promise
        self._hub = hub
        self._node = node
        self._loop = loop
        self._thread = get_ident()
        self._clock = clock
        self._request_timeout = request_timeout
        self._request_ticks = ticks_of(request_timeout)
        self._sent = defaultdict(bool) if sent is None else sent
        self._keys = itertools.count(1)
        self._open_requests = open_requests
        self._line = open_requests.line
        self._default = open_requests.default
        self._forget_default = open_requests.forget_default

    # -- promises ------------------------------------------------------------------------------------------------------

    def promise(self, content: object, callback: Callback | None, timeout: Timeout) -> Promise[Any]:
        """Make a request of a payload or message, and the promise of its answer."""
        if not self.is_open or get_ident() != self._thread or not self._loop.is_running():
            self._refuse()
        reply_spec = reply_spec_of(callback)
        kind = getattr(content.__class__, PAYLOAD_MARK, None)
        if kind is None or kind.of is not content.__class__:
            if isinstance(content, Message):
                return self._promise_for_message(content, callback, reply_spec, timeout)
            kind = payload_type(content.__class__)
        self._sent[kind.of]  # notes the first one of each class
        identifier = kind.identifier
        if identifier in reply_spec.readers:  # the router would return it as its own answer, and no actor would see it
            raise ArgumentError("callback", "another kind of message than the one that is sent", str(identifier))
        # 1. How long to wait, and how long the message lives.
        seconds, ttl_ticks = self._request_timeout, self._request_ticks
        if timeout is not None:
            seconds = seconds_of(timeout)
            ttl_ticks = ticks_of(seconds)
        if callback is None:  # the caller waits for the receipt only, but the message has to be handled in any case
            ttl_ticks = 0
        # 2. The message.
        write, is_value = kind.write, kind.is_value
        try:
            body = write(content)
        except Exception:
            body = kind.serializer.encode(content)  # raises an error that names the problem
        key = next(self._keys)
        message = Message(  # by position, which takes half the time
            identifier.identity,
            identifier.version,
            identifier.partition,
            (body,),
            0,  # unicast
            new_flow_id(),
            ttl_ticks,
            0,  # no trace options
            0,  # no hops yet
            b"",  # any receiver that handles it
            b"",  # on any node
            reply_spec.callback_point,
            key,
            self._hub,
            self._node,
        )
        # 3. Its delivery, and the promise.
        clock = self._clock
        now = clock()
        deadline = now + seconds
        value = content if is_value is not None and is_value(content) else None
        delivery = Delivery(message, identifier, now, deadline if ttl_ticks else NO_DEADLINE, value)
        if timeout is not None:
            promise = self.new_promise(key, reply_spec, delivery, seconds, deadline, self._open_requests.forget)
            self._open_requests.add(promise, deadline)
            return promise
        promise = self.new_promise(key, reply_spec, delivery, seconds, deadline, self._forget_default)
        self._default[key] = promise
        if not self._line.has_timer:
            self._line.set_timer()
        return promise

    def _promise_for_message(
        self, content: Message, callback: Callback | None, reply_spec: ReplySpec, timeout: Timeout
    ) -> Promise[Any]:
        if callback is None and content.distribution == Distribution.BROADCAST:
            raise ArgumentError("callback", "a callback, for a broadcast has no receipt", callback)
        seconds = self.seconds(timeout, content.ttl_ticks)
        key = self.new_key()
        delivery = delivery_of(self.addressed(content, reply_spec, key), self._clock())
        deadline = delivery.since + seconds
        promise = self.new_promise(key, reply_spec, delivery, seconds, deadline, self._open_requests.forget)
        self._open_requests.add(promise, deadline)
        return promise

    # -- their parts ---------------------------------------------------------------------------------------------------

    def message(
        self,
        content: object,
        distribution: Distribution | None = None,
        partition: Partition = None,
        version: Version | None = None,
    ) -> Message:
        """Return the message of a payload; or a message itself, redirected to this partition and version."""
        self.require_open()
        if not isinstance(content, Message):
            self._sent[content.__class__]  # notes the first one of each class
            distribution = distribution or Distribution.UNICAST
            return to_message(content, partition=partition, version=version, distribution=distribution)
        content = content.redirected(partition, version)
        if distribution is None or content.distribution == distribution:
            return content
        if content.receiver_node_identity or content.receiver_identity:
            raise ArgumentError("receiver_node_identity", "no receiver on a broadcast", content.receiver_node_identity)
        return content.clone(distribution=distribution)

    def addressed(self, message: Message, reply_spec: ReplySpec, key: int) -> Message:
        """Return a message whose answers come to the hub, with this key."""
        return message.register_callback_point(self._node, self._hub, reply_spec.callback_point, key)

    def delivery(self, message: Message, content: object) -> Delivery:
        """Return the delivery of a message, with the payload that it was made of."""
        return msgspec.structs.replace(delivery_of(message, self._clock()), content=as_value(content))

    def new_key(self) -> int:
        """Return a callback key."""
        return next(self._keys)

    def seconds(self, timeout: Timeout, ttl_ticks: int) -> float:
        """Return how long to wait: the timeout, else the lifetime of the message, else the default."""
        if timeout is None:
            return ttl_ticks / TICKS_PER_SECOND if ttl_ticks else self._request_timeout
        return seconds_of(timeout)

    # -- whether any can be made ---------------------------------------------------------------------------------------

    def require_open(self) -> None:
        """Raise an error if the node is not running, or this is not its event loop."""
        if not self.is_open or get_ident() != self._thread or not self._loop.is_running():
            self._refuse()

    def _refuse(self) -> NoReturn:
        if not self.is_open:
            raise NotRunningError("the node of this hub is not running")
        advice = "the node's own event loop (elsewhere: asyncio.run_coroutine_threadsafe; blocking: context.wait)"
        raise ArgumentError("hub", f"a call on {advice}", "a call from elsewhere")
