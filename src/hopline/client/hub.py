"""The message hub: sends requests to actors, and receives their answers.

Every request has a callback key. A reply carries the key of its request, and the hub looks up the promise or stream
that waits for it. `Requests` makes what is sent, and `OpenRequests` keeps what waits.

`send`, `offer` and `take_value` run for every message, and are written for speed.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Unpack, overload

from hopline.client.asking import Answer, Asking, First, Partition, Second, SendOptions, Timeout
from hopline.client.deadlines import Deadlines
from hopline.client.lifetimes import ticks_of
from hopline.client.open_requests import OpenRequest, OpenRequests, is_timeout
from hopline.client.promise import OnOver, Promise, TimedPromise
from hopline.client.reply_spec import FAILURE, Callback, as_it_is, callback_of, error_of, reply_spec_of
from hopline.client.requests import Requests
from hopline.client.retry import Retry, ask_again
from hopline.client.stream import Stream, StreamState
from hopline.message import (
    AnsweredBy,
    AnyPayload,
    ArgumentError,
    Distribution,
    HoplineError,
    Message,
    MessageIdentifier,
    NoRoomError,
    Version,
    new_hub_identity,
)
from hopline.routing import Delivery, Exchange, Label, Outcome


class MessageHub(Asking):
    """Sends payloads and messages, and receives the answers.

    A `timeout` is in seconds. Default: the lifetime of the message, or the node's `request_timeout` if it has none. The
    message of a payload lives as long as its sender waits.
    """

    confirms_receipts = False

    def __init__(
        self,
        exchange: Exchange,
        deadlines: Deadlines,
        loop: asyncio.AbstractEventLoop,
        *,
        node_identity: bytes,
        request_timeout: float = 30.0,
        identity: bytes | None = None,
        sent: Mapping[type, object] | None = None,
    ) -> None:
        self.identity = new_hub_identity() if identity is None else identity
        self.unexpected = 0  # replies that no request waited for: late, or duplicates
        self._exchange = exchange
        self._clock = exchange.clock
        self._loop = loop
        self._open_requests = OpenRequests(loop, deadlines, exchange.clock)
        self._requests = Requests(
            self.identity,
            node_identity,
            self._open_requests,
            loop,
            exchange.clock,
            request_timeout=request_timeout,
            sent=sent,
        )
        # What is looked up for every message.
        self._promise: Callable[[object, Callback | None, Timeout], Promise[Any]] = self._requests.promise
        self._default = self._open_requests.default
        self._others = self._open_requests.others

    @property
    def waiting(self) -> int:
        """Number of promises and streams that are open."""
        return len(self._open_requests)

    def time_requests(self, on_over: OnOver) -> None:
        """Report each further request whose promise is answered or fails."""
        self._requests.new_promise = functools.partial(TimedPromise, on_over=on_over)

    # -- sending -----------------------------------------------------------------------------------------------------

    def _ask(
        self,
        content: Any,
        callback: Callback | None,
        timeout: Timeout,
        partition: Partition,
        version: Version | None,
        retry: Retry | None,
    ) -> Coroutine[Any, Any, Any]:
        kinds: Any = callback_of(content) if callback is None else callback
        if retry is None:
            return self.send(content, callback=kinds, timeout=timeout, partition=partition, version=version)
        message = self._requests.message(content, None, partition, version)
        return ask_again(self.send, message, kinds, retry, self._time_to_wait(message, timeout), self._clock)

    def _time_to_wait(self, message: Message, timeout: Timeout) -> float:
        """Return how many seconds a request may take in all."""
        return self._requests.seconds(timeout, message.ttl_ticks)

    @overload
    async def send(self, content: AnyPayload, **options: Unpack[SendOptions]) -> None: ...
    @overload
    async def send(self, content: AnyPayload, *, callback: type[Answer], **options: Unpack[SendOptions]) -> Answer: ...
    @overload
    async def send(
        self, content: AnyPayload, *, callback: MessageIdentifier, **options: Unpack[SendOptions]
    ) -> Message: ...
    @overload
    async def send(
        self, content: AnyPayload, *, callback: tuple[type[First], type[Second]], **options: Unpack[SendOptions]
    ) -> First | Second: ...
    @overload
    async def send(
        self,
        content: AnyPayload,
        *,
        callback: Sequence[type[AnyPayload] | MessageIdentifier],
        **options: Unpack[SendOptions],
    ) -> Any: ...
    async def send(
        self,
        content: AnyPayload,
        *,
        callback: Callback | None = None,
        timeout: Timeout = None,
        partition: Partition = None,
        version: Version | None = None,
    ) -> Any:
        """Send a payload or message, and wait for its receipt, or for the answer if there is a `callback`.

        The answer need not come from the actor that handles the request: any later message of the flow of the kind
        that `callback` names is one. Cancelling leaves nothing behind.

        Args:
            content: A payload or a message.
            callback: The kind of the answer; of several, the first to come counts. Default: wait for the receipt.
            timeout: Seconds to wait.
            partition: The partition, if it is not the one of the payload class.
            version: The version, if it is not the one of the payload class.

        Returns:
            The answer: a payload, the message if `callback` is an identifier, or None for a receipt.

        Raises:
            ActorError: A handler failed.
            DeliveryError: The message reached no receiver.
            AnswerTimeoutError: The time has passed. Its `__cause__` is the `DeliveryError` of the message, if known.
        """
        if partition is None and version is None:
            new_promise = self._promise  # a local name: calling an attribute of an instance is slower
            promise = new_promise(content, callback, timeout)
        else:
            promise = self._redirected_promise(content, callback, timeout, partition, version)
        try:
            if not self._exchange.submit(promise.delivery):
                await self._exchange.wait_for_room(promise.delivery, promise.seconds).wait()
            return await promise
        finally:
            promise.leave()

    @overload
    def try_send(self, content: AnyPayload, **options: Unpack[SendOptions]) -> Promise[None]: ...
    @overload
    def try_send(
        self, content: AnyPayload, *, callback: type[Answer], **options: Unpack[SendOptions]
    ) -> Promise[Answer]: ...
    @overload
    def try_send(
        self, content: AnyPayload, *, callback: MessageIdentifier, **options: Unpack[SendOptions]
    ) -> Promise[Message]: ...
    @overload
    def try_send(
        self, content: AnyPayload, *, callback: tuple[type[First], type[Second]], **options: Unpack[SendOptions]
    ) -> Promise[First | Second]: ...
    @overload
    def try_send(
        self,
        content: AnyPayload,
        *,
        callback: Sequence[type[AnyPayload] | MessageIdentifier],
        **options: Unpack[SendOptions],
    ) -> Promise[Any]: ...
    def try_send(
        self,
        content: AnyPayload,
        *,
        callback: Callback | None = None,
        timeout: Timeout = None,
        partition: Partition = None,
        version: Version | None = None,
    ) -> Promise[Any]:
        """Send now, and return a promise of the answer. Raise `NoRoomError` if the receiver is full."""
        if partition is None and version is None:
            new_promise = self._promise  # as in `send`
            promise = new_promise(content, callback, timeout)
        else:
            promise = self._redirected_promise(content, callback, timeout, partition, version)
        try:
            if not self._exchange.submit(promise.delivery):
                raise NoRoomError(str(promise.delivery.identifier))
        except BaseException:
            promise.cancel()
            raise
        return promise

    async def send_one_way(
        self, content: AnyPayload, *, partition: Partition = None, version: Version | None = None
    ) -> None:
        """Send without waiting for an answer. Wait only while the receiver is full."""
        requests = self._requests
        await self._send(requests.delivery(requests.message(content, None, partition, version), content))

    async def _send(self, delivery: Delivery) -> None:
        if not self._exchange.submit(delivery):
            await self._exchange.wait_for_room(delivery).wait()

    def try_send_one_way(
        self, content: AnyPayload, *, partition: Partition = None, version: Version | None = None
    ) -> None:
        """Send now, without waiting for an answer. Raise `NoRoomError` if the receiver is full."""
        requests = self._requests
        delivery = requests.delivery(requests.message(content, None, partition, version), content)
        if not self._exchange.submit(delivery):
            raise NoRoomError(str(delivery.identifier))

    async def broadcast(
        self, content: AnyPayload, *, partition: Partition = None, version: Version | None = None
    ) -> None:
        """Send to every actor that handles it, on every node, without waiting for an answer."""
        requests = self._requests
        message = requests.message(content, Distribution.BROADCAST, partition, version)
        await self._send(requests.delivery(message, content))
        await asyncio.sleep(0)  # broadcasts never wait for room: let the receivers run between many of them

    @overload
    def stream(
        self, content: AnsweredBy[Answer], *, timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Answer]: ...
    @overload
    def stream(
        self, content: AnyPayload, *, callback: type[Answer], timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Answer]: ...
    @overload
    def stream(
        self, content: AnyPayload, *, callback: MessageIdentifier, timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Message]: ...
    @overload
    def stream(
        self,
        content: AnyPayload,
        *,
        callback: tuple[type[First], type[Second]],
        timeout: Timeout = None,
        limit: int | None = None,
    ) -> Stream[First | Second]: ...
    @overload
    def stream(
        self,
        content: AnyPayload,
        *,
        callback: Sequence[type[AnyPayload] | MessageIdentifier],
        timeout: Timeout = None,
        limit: int | None = None,
    ) -> Stream[Any]: ...
    def stream(
        self, content: Any, *, callback: Callback | None = None, timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Any]:
        """Broadcast, and return the answers as they come.

        Args:
            content: A request. With a `callback`, any payload or message.
            callback: The kind of the answers, or several. Default: what answers the request.
            timeout: Seconds until the stream ends.
            limit: Number of replies after which the stream ends.
        """
        reply_spec = reply_spec_of(callback_of(content) if callback is None else callback)
        if not (limit is None or limit >= 1):
            raise ArgumentError("limit", "at least 1", limit)
        requests, open_requests = self._requests, self._open_requests
        message = requests.message(content, Distribution.BROADCAST)
        seconds = requests.seconds(timeout, message.ttl_ticks)
        if not isinstance(content, Message):
            message = message.clone(ttl_ticks=ticks_of(seconds))
        state = StreamState(requests.new_key(), reply_spec, message, open_requests.forget)

        async def start(state: StreamState) -> None:
            requests.require_open()
            addressed = requests.addressed(message, reply_spec, state.key)
            delivery = requests.delivery(addressed, content)
            open_requests.add(state, delivery.since + seconds)
            self._exchange.submit(delivery)  # a broadcast never waits for room

        return Stream(state, start, open_requests.forget, limit)

    def _redirected_promise(
        self,
        content: object,
        callback: Callback | None,
        timeout: Timeout,
        partition: Partition,
        version: Version | None,
    ) -> Promise[Any]:
        """Create a request to another partition or version than the one of its class, and the promise of its answer."""
        message = self._requests.message(content, None, partition, version)
        if isinstance(content, Message):
            return self._promise(message, callback, timeout)
        seconds = self._time_to_wait(message, timeout)
        ttl_ticks = 0 if callback is None else ticks_of(seconds)  # as for payloads
        return self._promise(message.clone(ttl_ticks=ttl_ticks), callback, seconds)

    # -- receiving ---------------------------------------------------------------------------------------------------

    def offer(self, delivery: Delivery) -> bool:
        """Accept a reply. If its request waits for another kind, it is counted and the request goes on waiting."""
        reply = delivery.message
        waiting = self._default.get(reply.callback_key) or self._open_requests.other_of(delivery)
        reader = None if waiting is None else waiting.reply_spec.readers.get(delivery.identifier)
        if waiting is None or reader is None:
            self.unexpected += 1
        elif reader is FAILURE and is_timeout(reply, waiting, self._clock()):
            waiting.expire(error_of(reply))
        elif not waiting.take(reply, reader.read):
            self._exchange.ended(delivery, Outcome.OVERFLOW, "too many answers wait for the reader of a stream")
            return True
        exchange = self._exchange
        delivery = exchange.delivered(delivery, self.identity)
        if reader is not None and exchange.is_observed:
            exchange.resolved(delivery, self.identity)
        return True

    def label(self, _: MessageIdentifier) -> Label:
        """Return no names: a hub is known by its identity alone."""
        return None, None

    def take_value(self, key: int, identifier: MessageIdentifier, value: object) -> bool:
        """Accept an answer as a value, if the request with this key waits for exactly its class."""
        waiting = self._default.get(key) or self._others.get(key)
        reader = None if waiting is None else waiting.reply_spec.readers.get(identifier)
        if waiting is None or reader is None or reader.of is not value.__class__:
            return False
        return waiting.take(value, as_it_is)

    def all_waiting(self) -> Iterator[OpenRequest]:
        """Iterate over the promises and streams that are open."""
        return iter(self._open_requests)

    def close(self, error: HoplineError) -> int:
        """Fail every open promise and stream. Return how many there were."""
        self._requests.is_open = False
        return self._open_requests.fail_all(error)
