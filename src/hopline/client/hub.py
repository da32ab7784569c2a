"""The message hub: how everything that is not an actor talks to actors."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from datetime import timedelta
from threading import get_ident
from typing import Any, NoReturn, TypeVar, overload

import msgspec

from hopline.client.deadlines import Deadlines, Line
from hopline.client.expectation import FAILURE, Callback, Expectation, as_it_is, error_of, expectation_of
from hopline.client.promise import Promise
from hopline.client.stream import Gathering, Stream
from hopline.message import (
    PAYLOAD_MARK,
    DeliveryError,
    Distribution,
    HoplineError,
    LocalError,
    Message,
    MessageIdentifier,
    NoRoomError,
    NotRunningError,
    WireFormat,
    as_value,
    new_flow_id,
    new_hub_identity,
    payload_type,
    to_message,
)
from hopline.routing import NO_DEADLINE, TICKS_PER_SECOND, Delivery, Exchange, Label, Outcome, delivery_of

Answer = TypeVar("Answer")
First = TypeVar("First")
Second = TypeVar("Second")
Timeout = float | timedelta | None

_LONGEST_LIFETIME = (1 << 63) - 1
_LONGEST_WAIT = 1e9  # seconds; who says more means for ever
# Seconds by which another node may find a lifetime over before its caller does: it travels in whole ticks, and no two
# clocks run at quite the same rate.
_EARLY = 0.005


class MessageHub:
    """Sends payloads and messages, and brings home what answers them.

    `timeout` is how long to wait, in seconds: by default the message's own lifetime, or the node's `answer_time`. What
    is sent as a payload lives as long as its sender waits for it.
    """

    confirms_receipts = False

    def __init__(
        self,
        exchange: Exchange,
        deadlines: Deadlines,
        loop: asyncio.AbstractEventLoop,
        *,
        node_identity: bytes,
        answer_time: float = 30.0,
        identity: bytes | None = None,
    ) -> None:
        self.identity = new_hub_identity() if identity is None else identity
        self.unexpected = 0  # replies that nobody waited for: late, or doubled
        self._node_identity = node_identity
        self._exchange = exchange
        self._clock = exchange.clock
        self._delivered = exchange.delivered
        self._deadlines = deadlines
        self._loop = loop
        self._thread = get_ident()
        self._answer_time = answer_time
        self._answer_ticks = ticks_of(answer_time)
        self._keys = itertools.count(1)
        self._patient: Line[Promise[Any]] = Line(loop, exchange.clock)  # who waits as long as the node says
        self._in_line = self._patient.members
        self._others: dict[int, Promise[Any] | Gathering] = {}
        self._leave_line = self._in_line.pop
        self._is_open = True

    @property
    def waiting(self) -> int:
        """How many answers and streams are waited for."""
        return len(self._in_line) + len(self._others)

    # -- sending -----------------------------------------------------------------------------------------------------

    @overload
    async def send(self, content: object, *, timeout: Timeout = None) -> None: ...
    @overload
    async def send(self, content: object, *, callback: type[Answer], timeout: Timeout = None) -> Answer: ...
    @overload
    async def send(self, content: object, *, callback: MessageIdentifier, timeout: Timeout = None) -> Message: ...
    @overload
    async def send(
        self, content: object, *, callback: tuple[type[First], type[Second]], timeout: Timeout = None
    ) -> First | Second: ...
    @overload
    async def send(
        self, content: object, *, callback: Sequence[type | MessageIdentifier], timeout: Timeout = None
    ) -> Any: ...
    async def send(self, content: object, *, callback: Callback | None = None, timeout: Timeout = None) -> Any:
        """Send a payload or message and wait for what `callback` names; without one, for its receipt.

        With several callbacks the first to come wins. A message of the flow that comes much later, through actors that
        know nothing of it, is as good as a direct answer. Raises `ActorError` when the actor failed, `DeliveryError`
        when the message reached nobody, `AnswerTimeoutError` when the time was over, wherever the message was then: its
        `__cause__` is the `DeliveryError` that says so, if one came. Cancelling leaves nothing behind.
        """
        promise: Promise[Any] = self._promise(content, callback, timeout)
        try:
            if not self._exchange.submit(promise.delivery):
                await self._exchange.wait_for_room(promise.delivery, promise.seconds).wait()
            return await promise
        finally:
            promise.leave()

    @overload
    def try_send(self, content: object, *, timeout: Timeout = None) -> Promise[None]: ...
    @overload
    def try_send(self, content: object, *, callback: type[Answer], timeout: Timeout = None) -> Promise[Answer]: ...
    @overload
    def try_send(
        self, content: object, *, callback: MessageIdentifier, timeout: Timeout = None
    ) -> Promise[Message]: ...
    @overload
    def try_send(
        self, content: object, *, callback: tuple[type[First], type[Second]], timeout: Timeout = None
    ) -> Promise[First | Second]: ...
    @overload
    def try_send(
        self, content: object, *, callback: Sequence[type | MessageIdentifier], timeout: Timeout = None
    ) -> Promise[Any]: ...
    def try_send(self, content: object, *, callback: Callback | None = None, timeout: Timeout = None) -> Promise[Any]:
        """Send now or raise `NoRoomError`, and give a promise of the answer to be awaited later."""
        promise: Promise[Any] = self._promise(content, callback, timeout)
        try:
            if not self._exchange.submit(promise.delivery):
                raise NoRoomError(str(promise.delivery.identifier))
        except BaseException:
            promise.cancel()
            raise
        return promise

    async def send_one_way(self, content: object) -> None:
        """Send and want no answer. It waits for room only."""
        await self._send(self._delivery(self._message(content), content))

    async def _send(self, delivery: Delivery) -> None:
        if not self._exchange.submit(delivery):
            await self._exchange.wait_for_room(delivery).wait()

    def try_send_one_way(self, content: object) -> None:
        """Send now and want no answer, or raise `NoRoomError`."""
        delivery = self._delivery(self._message(content), content)
        if not self._exchange.submit(delivery):
            raise NoRoomError(str(delivery.identifier))

    async def broadcast(self, content: object) -> None:
        """Send to every actor that handles it, on every node, and want no answer."""
        await self._send(self._delivery(self._message(content, Distribution.BROADCAST), content))
        await asyncio.sleep(0)  # a broadcast waits for nobody: who sends many of them lets the others hear

    @overload
    def stream(
        self, content: object, *, callback: type[Answer], timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Answer]: ...
    @overload
    def stream(
        self, content: object, *, callback: MessageIdentifier, timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Message]: ...
    @overload
    def stream(
        self,
        content: object,
        *,
        callback: tuple[type[First], type[Second]],
        timeout: Timeout = None,
        limit: int | None = None,
    ) -> Stream[First | Second]: ...
    @overload
    def stream(
        self,
        content: object,
        *,
        callback: Sequence[type | MessageIdentifier],
        timeout: Timeout = None,
        limit: int | None = None,
    ) -> Stream[Any]: ...
    def stream(
        self, content: object, *, callback: Callback, timeout: Timeout = None, limit: int | None = None
    ) -> Stream[Any]:
        """Broadcast, and give the answers as they come, until the time is over or `limit` replies came."""
        expectation = expectation_of(callback)
        if not (limit is None or limit >= 1):
            raise LocalError("limit", "at least 1", limit)
        message = self._message(content, Distribution.BROADCAST)
        seconds = self._seconds(timeout, message.ttl_ticks)
        if not isinstance(content, Message):
            message = message.clone(ttl_ticks=ticks_of(seconds))
        gathering = Gathering(next(self._keys), expectation, message, self._forget)

        async def start(gathering: Gathering) -> None:
            self._require_open()
            addressed = self._addressed(message, expectation, gathering.key)
            delivery = self._delivery(addressed, content)
            self._expect(gathering, delivery.since + seconds)
            self._exchange.submit(delivery)  # a broadcast never waits for room

        return Stream(gathering, start, self._forget, limit)

    # -- making messages ---------------------------------------------------------------------------------------------

    def _message(self, content: object, distribution: Distribution | None = None) -> Message:
        self._require_open()
        if not isinstance(content, Message):
            return to_message(content, distribution=distribution or Distribution.UNICAST)
        if distribution is None or content.distribution == distribution:
            return content
        if content.receiver_node_identity or content.receiver_identity:
            raise LocalError("receiver_node_identity", "no receiver on a broadcast", content.receiver_node_identity)
        return content.clone(distribution=distribution)

    def _promise(self, content: object, callback: Callback | None, timeout: Timeout) -> Promise[Any]:
        # A payload, made a message in one go, is what nearly everyone sends.
        if not self._is_open or get_ident() != self._thread or not self._loop.is_running():
            self._refuse()
        expectation = expectation_of(callback)
        kind = getattr(content.__class__, PAYLOAD_MARK, None)
        if kind is None or kind.of is not content.__class__:
            if isinstance(content, Message):
                return self._promise_of_message(content, callback, expectation, timeout)
            kind = payload_type(content.__class__)
        identifier = kind.identifier
        if identifier in expectation.readers:  # by the protocol's rule it would come straight back, unseen by any actor
            raise LocalError("callback", "another kind of message than the one that is sent", str(identifier))
        seconds, ttl_ticks = self._answer_time, self._answer_ticks
        if timeout is not None:
            seconds = self._seconds(timeout, 0)
            ttl_ticks = ticks_of(seconds)
        if callback is None:  # who has the receipt waits no longer, but the message is to be handled
            ttl_ticks = 0
        write = kind.write
        try:
            body = write(content)
        except Exception:
            body = kind.serializer.encode(content)  # which says what is wrong
        key = next(self._keys)
        message = Message(  # by position, which takes half the time
            identifier.identity,
            identifier.version,
            identifier.partition,
            (body,),
            0,  # unicast
            new_flow_id(),
            ttl_ticks,
            0,  # nothing is traced
            0,  # no hops yet
            b"",  # whoever handles it
            b"",  # wherever
            expectation.callback_point,
            key,
            self.identity,
            self._node_identity,
        )
        clock = self._clock
        now = clock()
        deadline = now + seconds
        is_value = kind.is_value
        value = content if is_value is not None and is_value(content) else None
        delivery = Delivery(message, identifier, now, deadline if ttl_ticks else NO_DEADLINE, None, value)
        forget = self._leave_line if timeout is None else self._forget
        promise: Promise[Any] = Promise(key, expectation, delivery, seconds, deadline, forget)
        if timeout is None:
            self._in_line[key] = promise
            if not self._patient.is_watched:
                self._patient.watch()
        else:
            self._expect(promise, deadline)
        return promise

    def _promise_of_message(
        self, content: Message, callback: Callback | None, expectation: Expectation, timeout: Timeout
    ) -> Promise[Any]:
        if callback is None and content.distribution == Distribution.BROADCAST:
            raise LocalError("callback", "a callback, for a broadcast has no receipt", callback)
        seconds = self._seconds(timeout, content.ttl_ticks)
        key = next(self._keys)
        delivery = delivery_of(self._addressed(content, expectation, key), self._clock())
        deadline = delivery.since + seconds
        promise: Promise[Any] = Promise(key, expectation, delivery, seconds, deadline, self._forget)
        self._expect(promise, deadline)
        return promise

    def _delivery(self, message: Message, content: object) -> Delivery:
        return msgspec.structs.replace(delivery_of(message, self._clock()), content=as_value(content))

    def _addressed(self, message: Message, expectation: Expectation, key: int) -> Message:
        return message.register_callback_point(self._node_identity, self.identity, expectation.callback_point, key)

    def _seconds(self, timeout: Timeout, ttl_ticks: int) -> float:
        """Tell how long to wait: as asked, else as long as the message lives, else as the node is set."""
        if timeout is None:
            return ttl_ticks / TICKS_PER_SECOND if ttl_ticks else self._answer_time
        seconds: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if not (isinstance(seconds, (int, float)) and seconds >= 0):
            raise LocalError("timeout", "seconds, not below zero", timeout)
        return float(seconds) if seconds <= _LONGEST_WAIT else NO_DEADLINE

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _expect(self, waiting: Promise[Any] | Gathering, deadline: float) -> None:
        self._others[waiting.key] = waiting
        waiting.deadline = deadline
        waiting.tick = self._deadlines.add(deadline, waiting)

    def _forget(self, key: int, nothing: None) -> None:
        """Expect no more of one of the others; as to leave the line, it does no harm to do it twice."""
        waiting = self._others.pop(key, nothing)
        if waiting is not None:
            self._deadlines.discard(waiting.tick, waiting)

    def offer(self, delivery: Delivery) -> bool:
        """Take a reply. One that is not what its key's owner waits for leaves the owner waiting."""
        reply = delivery.message
        waiting = self._in_line.get(reply.callback_key) or self._among_others(delivery)
        reader = None if waiting is None else waiting.expectation.readers.get(delivery.identifier)
        if waiting is None or reader is None:
            self.unexpected += 1
        elif reader is FAILURE and self._is_timeout(waiting, reply):
            waiting.expire(error_of(reply))
        elif not waiting.take(reply, reader.read):
            self._exchange.ended(delivery, Outcome.OVERFLOW, "too many answers wait for the reader of a stream")
            return True
        delivered = self._delivered
        delivered(delivery, self.identity)
        if reader is not None and self._exchange.is_watched:
            self._exchange.resolved(delivery, self.identity)
        return True

    def _is_timeout(self, waiting: Promise[Any] | Gathering, reply: Message) -> bool:
        """Return whether a failure report only says that the caller's own time is over.

        A message lives as long as its sender waits for it, so whoever holds it when that time is over reports it as
        expired, and this report races with the timer of the caller. Which of the two comes first must not matter.
        """
        left = waiting.deadline - self._clock()
        if left > _EARLY:
            return False
        error = error_of(reply)
        return isinstance(error, DeliveryError) and left <= (_EARLY if error.outcome == Outcome.EXPIRED else 0.0)

    def label(self, _: MessageIdentifier) -> Label:
        """Return no names: a hub is known by its identity alone."""
        return None, None

    def take_value(self, key: int, identifier: MessageIdentifier, value: object) -> bool:
        """Take an answer that is a value, if it is just what the one with this key waits for."""
        waiting = self._in_line.get(key) or self._others.get(key)
        reader = None if waiting is None else waiting.expectation.readers.get(identifier)
        if waiting is None or reader is None or reader.of is not value.__class__:
            return False
        return waiting.take(value, as_it_is)

    def _among_others(self, delivery: Delivery) -> Promise[Any] | Gathering | None:
        """Find who waits otherwise than most: for a time of its own, or by the flow, as the first format has no key."""
        reply = delivery.message
        waiting = self._others.get(reply.callback_key)
        if waiting is None and reply.wire_format is WireFormat.FIRST:
            flow = (one for one in self._all_waiting() if one.message.correlation_id == reply.correlation_id)
            return next((one for one in flow if delivery.identifier in one.expectation.readers), None)
        return waiting

    def _all_waiting(self) -> Iterator[Promise[Any] | Gathering]:
        return itertools.chain(self._in_line.values(), self._others.values())

    # -- ending ------------------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if not self._is_open or get_ident() != self._thread or not self._loop.is_running():
            self._refuse()

    def _refuse(self) -> NoReturn:
        if not self._is_open:
            raise NotRunningError("the node of this hub is not running")
        advice = "the node's own event loop (elsewhere: asyncio.run_coroutine_threadsafe; blocking: context.wait)"
        raise LocalError("hub", f"a call on {advice}", "a call from elsewhere")

    def close(self, error: HoplineError) -> int:
        """Fail whatever is still waited for, and tell how much that was."""
        self._is_open = False
        left = list(self._all_waiting())
        for waiting in left:
            waiting.fail(type(error)(*error.args))  # each raises its own: a traceback grows with every raise
        self._patient.close()
        return len(left)


def ticks_of(seconds: float) -> int:
    """Return a lifetime in the wire's unit; zero is no limit."""
    return 0 if seconds == NO_DEADLINE else max(1, min(int(seconds * TICKS_PER_SECOND), _LONGEST_LIFETIME))
