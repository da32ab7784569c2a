"""The message hub: sends requests to actors, and receives their answers.

Every request has a callback key. A reply carries the key of its request, and the hub looks up the promise or stream
that waits for it. Most requests wait for the node's `request_timeout`: these are kept in a `Line`, which needs one
timer for all of them. Requests with a timeout of their own, and streams, are kept beside it, with `Deadlines`.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import timedelta
from threading import get_ident
from typing import Any, NoReturn, Unpack, overload

import msgspec

from hopline.client.asking import Answer, Asking, First, Partition, Second, SendOptions, Timeout
from hopline.client.deadlines import Deadlines, Line
from hopline.client.promise import OnOver, Promise, TimedPromise
from hopline.client.reply_spec import FAILURE, Callback, ReplySpec, as_it_is, callback_of, error_of, reply_spec_of
from hopline.client.retry import Retry
from hopline.client.stream import Stream, StreamState
from hopline.message import (
    PAYLOAD_MARK,
    AnsweredBy,
    AnyPayload,
    ArgumentError,
    DeliveryError,
    Distribution,
    HoplineError,
    Message,
    MessageIdentifier,
    NoRoomError,
    NotRunningError,
    Version,
    WireFormat,
    as_value,
    new_flow_id,
    new_hub_identity,
    numbered,
    payload_type,
    to_message,
)
from hopline.routing import NO_DEADLINE, TICKS_PER_SECOND, Delivery, Exchange, Label, Outcome, delivery_of

_LONGEST_LIFETIME = (1 << 63) - 1
_LONGEST_WAIT = 1e9  # seconds; longer timeouts count as unlimited
# Seconds by which a lifetime may end on another node before the caller's own time has passed: it travels in whole
# ticks, and clocks run at slightly different rates.
_EARLY = 0.005


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
        self._node_identity = node_identity
        self._exchange = exchange
        self._clock = exchange.clock
        self._deadlines = deadlines
        self._loop = loop
        self._thread = get_ident()
        self._request_timeout = request_timeout
        self._request_ticks = ticks_of(request_timeout)
        self._keys = itertools.count(1)
        self._default_line: Line[Promise[Any]] = Line(loop, exchange.clock)  # waits of `request_timeout`
        self._default_waits = self._default_line.members
        self._other_waits: dict[int, Promise[Any] | StreamState] = {}
        self._forget_default = self._default_waits.pop
        self._new_promise: Callable[..., Promise[Any]] = Promise
        self._sent = defaultdict(bool) if sent is None else sent  # looked up for every payload class that is sent
        self._is_open = True

    @property
    def waiting(self) -> int:
        """Number of promises and streams that are open."""
        return len(self._default_waits) + len(self._other_waits)

    def time_requests(self, on_over: OnOver) -> None:
        """Report each further request whose promise is answered or fails."""
        self._new_promise = functools.partial(TimedPromise, on_over=on_over)

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
        return self._ask_again(self._message(content, None, partition, version), kinds, timeout, retry)

    async def _ask_again(self, message: Message, callback: Any, timeout: Timeout, retry: Retry) -> Any:
        deadline = self._clock() + self._time_to_wait(message, timeout)
        longest = self._seconds(retry.attempt_timeout, 0) if retry.attempt_timeout is not None else NO_DEADLINE
        attempt = 1
        while True:
            seconds = min(longest, max(0.0, deadline - self._clock()))  # zero in the first attempt only
            request = numbered(message, attempt).clone(ttl_ticks=ticks_of(seconds))
            try:
                return await self.send(request, callback=callback, timeout=seconds)
            except retry.on:
                pause = retry.pause_after(attempt)
                if attempt >= retry.attempts or self._clock() + pause >= deadline:
                    raise
                await asyncio.sleep(pause)
                if self._clock() >= deadline:  # the loop was busy: no time is left for another attempt
                    raise
            attempt += 1

    def _time_to_wait(self, message: Message, timeout: Timeout) -> float:
        """Return how many seconds a request that is asked again may take in all."""
        return self._seconds(timeout, message.ttl_ticks)

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
            promise: Promise[Any] = self._promise(content, callback, timeout)
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
            promise: Promise[Any] = self._promise(content, callback, timeout)
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
        await self._send(self._delivery(self._message(content, None, partition, version), content))

    async def _send(self, delivery: Delivery) -> None:
        if not self._exchange.submit(delivery):
            await self._exchange.wait_for_room(delivery).wait()

    def try_send_one_way(
        self, content: AnyPayload, *, partition: Partition = None, version: Version | None = None
    ) -> None:
        """Send now, without waiting for an answer. Raise `NoRoomError` if the receiver is full."""
        delivery = self._delivery(self._message(content, None, partition, version), content)
        if not self._exchange.submit(delivery):
            raise NoRoomError(str(delivery.identifier))

    async def broadcast(
        self, content: AnyPayload, *, partition: Partition = None, version: Version | None = None
    ) -> None:
        """Send to every actor that handles it, on every node, without waiting for an answer."""
        message = self._message(content, Distribution.BROADCAST, partition, version)
        await self._send(self._delivery(message, content))
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
        message = self._message(content, Distribution.BROADCAST)
        seconds = self._seconds(timeout, message.ttl_ticks)
        if not isinstance(content, Message):
            message = message.clone(ttl_ticks=ticks_of(seconds))
        state = StreamState(next(self._keys), reply_spec, message, self._forget)

        async def start(state: StreamState) -> None:
            self._require_open()
            addressed = self._addressed(message, reply_spec, state.key)
            delivery = self._delivery(addressed, content)
            self._expect(state, delivery.since + seconds)
            self._exchange.submit(delivery)  # a broadcast never waits for room

        return Stream(state, start, self._forget, limit)

    # -- making messages ---------------------------------------------------------------------------------------------

    def _message(
        self,
        content: object,
        distribution: Distribution | None = None,
        partition: Partition = None,
        version: Version | None = None,
    ) -> Message:
        self._require_open()
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

    def _promise(self, content: object, callback: Callback | None, timeout: Timeout) -> Promise[Any]:
        """Create the request and the promise of its answer. Written in place for payloads, the common case."""
        if not self._is_open or get_ident() != self._thread or not self._loop.is_running():
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
            seconds = self._seconds(timeout, 0)
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
            self.identity,
            self._node_identity,
        )
        # 3. Its delivery, and the promise.
        clock = self._clock
        now = clock()
        deadline = now + seconds
        value = content if is_value is not None and is_value(content) else None
        delivery = Delivery(message, identifier, now, deadline if ttl_ticks else NO_DEADLINE, value)
        if timeout is not None:
            promise = self._new_promise(key, reply_spec, delivery, seconds, deadline, self._forget)
            self._expect(promise, deadline)
            return promise
        promise = self._new_promise(key, reply_spec, delivery, seconds, deadline, self._forget_default)
        self._default_waits[key] = promise
        if not self._default_line.has_timer:
            self._default_line.set_timer()
        return promise

    def _redirected_promise(
        self,
        content: object,
        callback: Callback | None,
        timeout: Timeout,
        partition: Partition,
        version: Version | None,
    ) -> Promise[Any]:
        """Create a request to another partition or version than the one of its class, and the promise of its answer."""
        message = self._message(content, None, partition, version)
        if isinstance(content, Message):
            return self._promise(message, callback, timeout)
        seconds = self._time_to_wait(message, timeout)
        ttl_ticks = 0 if callback is None else ticks_of(seconds)  # as for payloads
        return self._promise(message.clone(ttl_ticks=ttl_ticks), callback, seconds)

    def _promise_for_message(
        self, content: Message, callback: Callback | None, reply_spec: ReplySpec, timeout: Timeout
    ) -> Promise[Any]:
        if callback is None and content.distribution == Distribution.BROADCAST:
            raise ArgumentError("callback", "a callback, for a broadcast has no receipt", callback)
        seconds = self._seconds(timeout, content.ttl_ticks)
        key = next(self._keys)
        delivery = delivery_of(self._addressed(content, reply_spec, key), self._clock())
        deadline = delivery.since + seconds
        promise = self._new_promise(key, reply_spec, delivery, seconds, deadline, self._forget)
        self._expect(promise, deadline)
        return promise

    def _delivery(self, message: Message, content: object) -> Delivery:
        return msgspec.structs.replace(delivery_of(message, self._clock()), content=as_value(content))

    def _addressed(self, message: Message, reply_spec: ReplySpec, key: int) -> Message:
        return message.register_callback_point(self._node_identity, self.identity, reply_spec.callback_point, key)

    def _seconds(self, timeout: Timeout, ttl_ticks: int) -> float:
        """Return how long to wait: the timeout, else the lifetime of the message, else the default."""
        if timeout is None:
            return ttl_ticks / TICKS_PER_SECOND if ttl_ticks else self._request_timeout
        seconds: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if not (isinstance(seconds, (int, float)) and seconds >= 0):
            raise ArgumentError("timeout", "seconds, not below zero", timeout)
        return float(seconds) if seconds <= _LONGEST_WAIT else NO_DEADLINE

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _expect(self, waiting: Promise[Any] | StreamState, deadline: float) -> None:
        self._other_waits[waiting.key] = waiting
        waiting.deadline = deadline
        waiting.tick = self._deadlines.add(deadline, waiting)

    def _forget(self, key: int, nothing: None) -> None:
        """Stop waiting for a request that has its own deadline. It does no harm to call it twice."""
        waiting = self._other_waits.pop(key, nothing)
        if waiting is not None:
            self._deadlines.discard(waiting.tick, waiting)

    def offer(self, delivery: Delivery) -> bool:
        """Accept a reply. If its request waits for another kind, it is counted and the request goes on waiting."""
        reply = delivery.message
        waiting = self._default_waits.get(reply.callback_key) or self._other_wait(delivery)
        reader = None if waiting is None else waiting.reply_spec.readers.get(delivery.identifier)
        if waiting is None or reader is None:
            self.unexpected += 1
        elif reader is FAILURE and self._is_timeout(waiting, reply):
            waiting.expire(error_of(reply))
        elif not waiting.take(reply, reader.read):
            self._exchange.ended(delivery, Outcome.OVERFLOW, "too many answers wait for the reader of a stream")
            return True
        exchange = self._exchange
        delivery = exchange.delivered(delivery, self.identity)
        if reader is not None and exchange.is_observed:
            exchange.resolved(delivery, self.identity)
        return True

    def _is_timeout(self, waiting: Promise[Any] | StreamState, reply: Message) -> bool:
        """Return whether a failure report only says that the caller's own time has passed.

        A message lives as long as its sender waits. The node that holds it at the end reports it as expired, and that
        report races with the timer of the caller. The caller gets the same error whichever comes first.
        """
        remaining = waiting.deadline - self._clock()
        if remaining > _EARLY:
            return False
        error = error_of(reply)
        if not isinstance(error, DeliveryError):
            return False
        return remaining <= (_EARLY if error.outcome == Outcome.EXPIRED else 0.0)

    def label(self, _: MessageIdentifier) -> Label:
        """Return no names: a hub is known by its identity alone."""
        return None, None

    def take_value(self, key: int, identifier: MessageIdentifier, value: object) -> bool:
        """Accept an answer as a value, if the request with this key waits for exactly its class."""
        waiting = self._default_waits.get(key) or self._other_waits.get(key)
        reader = None if waiting is None else waiting.reply_spec.readers.get(identifier)
        if waiting is None or reader is None or reader.of is not value.__class__:
            return False
        return waiting.take(value, as_it_is)

    def _other_wait(self, delivery: Delivery) -> Promise[Any] | StreamState | None:
        """Return the promise or stream that a reply belongs to, if it is not one of the default waits.

        Replies in the first format have no key: they belong to the request of their flow that waits for their kind.
        """
        reply = delivery.message
        waiting = self._other_waits.get(reply.callback_key)
        if waiting is None and reply.wire_format is WireFormat.FIRST:
            for candidate in self.all_waiting():
                is_of_flow = candidate.message.correlation_id == reply.correlation_id
                if is_of_flow and delivery.identifier in candidate.reply_spec.readers:
                    return candidate
        return waiting

    def all_waiting(self) -> Iterator[Promise[Any] | StreamState]:
        """Iterate over the promises and streams that are open."""
        return itertools.chain(self._default_waits.values(), self._other_waits.values())

    # -- ending ------------------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if not self._is_open or get_ident() != self._thread or not self._loop.is_running():
            self._refuse()

    def _refuse(self) -> NoReturn:
        if not self._is_open:
            raise NotRunningError("the node of this hub is not running")
        advice = "the node's own event loop (elsewhere: asyncio.run_coroutine_threadsafe; blocking: context.wait)"
        raise ArgumentError("hub", f"a call on {advice}", "a call from elsewhere")

    def close(self, error: HoplineError) -> int:
        """Fail every open promise and stream. Return how many there were."""
        self._is_open = False
        unanswered = list(self.all_waiting())
        for waiting in unanswered:
            waiting.fail(type(error)(*error.args))  # an error of its own: a traceback grows with every raise
        self._default_line.close()
        return len(unanswered)


def ticks_of(seconds: float) -> int:
    """Return a lifetime in the wire's unit; zero is no limit."""
    return 0 if seconds == NO_DEADLINE else max(1, min(int(seconds * TICKS_PER_SECOND), _LONGEST_LIFETIME))
