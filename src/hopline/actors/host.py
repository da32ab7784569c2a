"""The host of one actor: takes its messages, runs its handlers, sends what they return.

A plain function is called straight from the loop, with no task of its own. What a misbehaving handler does (raise,
hang, return nonsense, flood) ends in its own flow: the caller is told, and the next message is taken.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import traceback
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Hashable, Iterator
from contextlib import aclosing, closing, nullcontext
from contextvars import copy_context
from typing import Any

from hopline.actors.actor import Actor
from hopline.actors.flow import current_message
from hopline.actors.handler import HandlerDefinition
from hopline.actors.log import flow_log
from hopline.actors.results import exception_result, plain_result, result
from hopline.actors.services import HandlerSpan, Services, Telemetry
from hopline.message import (
    EXCEPTION,
    PAYLOAD_MARK,
    ExceptionReport,
    HoplineError,
    LocalError,
    Message,
    MessageIdentifier,
)
from hopline.routing import NO_DEADLINE, Delivery, Label, Outcome, Place, delivery_of, remaining_ticks

log = flow_log("hopline.actors")

# How long one actor may go through its mailbox before the others get their turn, in seconds and in messages.
TURN_SECONDS = 0.005
TURN_MESSAGES = 256
# After how many results of a flooding handler the others get their turn.
RESULTS_AT_ONCE = 64

_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


@functools.lru_cache(maxsize=1024)
def _takes_time(kind: Hashable) -> bool:
    """Tell whether what a handler returned is several things, or something to wait for."""
    return kind in (list, tuple) or (isinstance(kind, type) and issubclass(kind, (Awaitable, Iterator, AsyncIterator)))


_set_current_message = current_message.set


class HandlerCancelledError(HoplineError):
    """The handler was stopped before it ended: its node or its actor went away, or it cancelled itself."""


class ActorHost:
    """Where one actor lives on a node."""

    __slots__ = (
        "_capacity",
        "_concurrency",
        "_deliveries",
        "_handlers",
        "_idle",
        "_running",
        "_scheduled",
        "_services",
        "_tasks",
        "actor",
        "identity",
    )

    confirms_receipts = True

    def __init__(
        self, actor: Actor, definitions: dict[MessageIdentifier, HandlerDefinition], services: Services
    ) -> None:
        self.actor = actor
        self.identity = actor.identity
        self._services = services
        self._handlers = definitions
        self._capacity = actor.mailbox_capacity or services.mailbox_capacity
        self._deliveries: deque[Delivery] = deque()  # the mailbox
        self._concurrency = actor.concurrency or services.concurrency
        self._running = 0  # handlers that are under way in a task
        self._scheduled = False
        self._tasks: dict[asyncio.Task[None], None] | None = None  # in the order of their start
        self._idle: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """The actor as people know it."""
        return type(self.actor).__qualname__

    def label(self, identifier: MessageIdentifier) -> Label:
        """Return the names of the actor's class and of the method that handles a kind of message."""
        definition = self._handlers.get(identifier)
        return self.name, None if definition is None else definition.method

    @property
    def waiting(self) -> int:
        """How many messages wait in the mailbox."""
        return len(self._deliveries)

    @property
    def running(self) -> int:
        """How many handlers are under way."""
        return self._running

    # -- taking messages ---------------------------------------------------------------------------------------------

    def offer(self, delivery: Delivery) -> bool:
        """Put a delivery into the mailbox, unless it is full."""
        if len(self._deliveries) >= self._capacity:
            return False
        self._deliveries.append(delivery)
        if not self._scheduled:
            self._schedule()
        return True

    def _schedule(self) -> None:
        if self._running < self._concurrency:
            self._scheduled = True
            self._services.loop.call_soon(self._take_turn, context=self._services.base_context)

    def _take_turn(self) -> None:
        """Handle what waits, for a while; then the others."""
        self._scheduled = False
        exchange, deliveries, handle = self._services.exchange, self._deliveries, self._handle
        clock, slow_handler, full = exchange.clock, self._services.slow_handler, self._capacity
        new_context = self._services.base_context.copy
        now = clock()
        turn_ends = now + TURN_SECONDS
        try:
            for _ in range(TURN_MESSAGES):
                if not deliveries or self._running >= self._concurrency or now > turn_ends:
                    break
                waited = len(deliveries)
                delivery = deliveries.popleft()
                if waited >= full:
                    exchange.room_made(self.identity, self._handlers)
                if delivery.deadline <= now:
                    exchange.ended(delivery, Outcome.EXPIRED, "its lifetime was over in the mailbox")
                else:
                    # In a context of its own: what one handler sets, others do not see.
                    since, now = now, new_context().run(handle, delivery, now)
                    if now - since > slow_handler:
                        self._warn_of_slow(delivery.message, now - since)
        finally:  # whatever happened, the others in the mailbox are not to wait for ever
            if deliveries and not self._scheduled:
                self._schedule()
            elif self._idle is not None:
                self._tell_if_idle()

    # -- running handlers --------------------------------------------------------------------------------------------

    def _handle(self, delivery: Delivery, now: float) -> float:
        """Call the handler, send what it returned if that can be done at once, and tell when it returned."""
        # In one go what nearly all handlers do: a plain function that takes a payload and returns one, or nothing. What
        # can be called and is no method is named first, as Python then finds it faster.
        services, message = self._services, delivery.message
        exchange = services.exchange
        clock, delivered, handled = exchange.clock, exchange.delivered, exchange.handled
        delivered(delivery, self.identity)
        _set_current_message(message)
        definition = self._handlers.get(delivery.identifier)
        span = None if services.telemetry is None else self._begin_span(services.telemetry, delivery, definition)
        try:
            if definition is None:
                raise LocalError(self.name, "a message that it handles", str(delivery.identifier))
            read, function = definition.read, definition.function
            if read is not None:
                content: Any = delivery.content
                if content is None or content.__class__ is not definition.content:
                    bodies = message.bodies
                    content = read(bodies[0] if bodies else b"")
                returned: Any = function(self.actor, content)
            elif definition.blocking:
                returned = self._in_thread(definition, delivery, now)
            else:
                returned = self._call(definition, delivery, now)
            now = clock()
            if returned is not None:
                kind = getattr(returned.__class__, PAYLOAD_MARK, None)
                if kind is not None and kind.is_plain and kind.of is returned.__class__:
                    write = kind.write
                    try:
                        body = write(returned)
                    except Exception:
                        body = kind.serializer.encode(returned)  # which says what is wrong
                    is_value = kind.is_value
                    if not (
                        is_value is not None
                        and is_value(returned)
                        and exchange.bring_home(message, kind.identifier, returned)
                    ):
                        answer = Delivery(plain_result(message, kind.identifier, body), kind.identifier, now)
                        if not exchange.submit(answer):
                            self._wait_in_task(answer)
                elif _takes_time(returned.__class__):
                    self._go_on(self._finish(delivery, span, returned))
                    return clock()  # it may have begun already
                else:
                    self._send_soon(result(message, returned))
            if span is None:
                handled(None)
            else:
                self._handled(span, None)
            return now
        except (KeyboardInterrupt, SystemExit) as error:
            self._fail(delivery, span, error)
            raise
        except BaseException as error:  # an extension's panic is no Exception, and no reason to leave a caller waiting
            self._fail(delivery, span, error)
            return clock()
        finally:
            if span is not None:
                span.detach()

    def _begin_span(
        self, telemetry: Telemetry, delivery: Delivery, definition: HandlerDefinition | None
    ) -> HandlerSpan | None:
        try:
            return telemetry.begin(delivery, self.name if definition is None else definition.name)
        except Exception:
            log.exception("telemetry failed", flow=delivery.message)
            return None

    def _call(self, definition: HandlerDefinition, delivery: Delivery, now: float) -> Any:
        message = delivery.message
        sees_message = definition.content is None or definition.wants_context
        if sees_message and delivery.deadline != NO_DEADLINE:
            message = message.clone(ttl_ticks=remaining_ticks(delivery, now))
        content: Any = message
        if definition.content is not None and definition.serializer is not None:
            content = delivery.content
            if content.__class__ is not definition.content:
                content = definition.serializer.decode(message.body, definition.content)
        if definition.wants_context:
            context = self._services.context_type(
                message, self._services, blocking=definition.blocking, deadline=delivery.deadline
            )
            return definition.function(self.actor, content, context)
        return definition.function(self.actor, content)

    async def _in_thread(self, definition: HandlerDefinition, delivery: Delivery, now: float) -> Any:
        is_over = False

        def call() -> Any:
            try:
                returned = self._call(definition, delivery, now)
            except StopIteration as error:  # which no future can hold
                raise RuntimeError("the handler raised StopIteration") from error
            if not inspect.isgenerator(returned):
                return returned
            with closing(returned):
                for one in returned:  # each is sent as it comes, and waits for room here
                    if is_over:
                        break
                    sending = self._send(result(delivery.message, one))
                    asyncio.run_coroutine_threadsafe(sending, self._services.loop).result()
            return None

        try:
            return await self._services.loop.run_in_executor(self._services.threads, copy_context().run, call)
        finally:
            is_over = True  # a generator that nobody waits for ends with its next result

    def _warn_of_slow(self, message: Message, held: float) -> None:
        advice = "blocking=True would run it in a thread"
        what = message.identifier
        log.warning("%s held the event loop for %.1f s to handle %s; %s", self.name, held, what, advice, flow=message)

    # -- sending results ---------------------------------------------------------------------------------------------

    async def _finish(self, delivery: Delivery, span: HandlerSpan | None, returned: Any) -> None:
        """See a handler through that did not end at once."""
        task = asyncio.current_task()
        if task is not None and self._tasks is not None:
            self._tasks[task] = None  # one that begins at once runs before `_go_on` knows it
        try:
            while isinstance(returned, Awaitable):
                returned = await returned
            await self._send_all(delivery.message, returned)
        except GeneratorExit:  # nobody runs this any more
            raise
        except (KeyboardInterrupt, SystemExit) as error:
            self._fail(delivery, span, error)
            raise
        except BaseException as error:
            self._fail(delivery, span, error)
        else:
            self._handled(span, None)

    async def _send_all(self, message: Message, returned: Any) -> None:
        if isinstance(returned, AsyncIterator):
            async with aclosing(returned) if isinstance(returned, AsyncGenerator) else nullcontext():
                count = 0
                async for one in returned:
                    count += 1
                    await self._send_in_turn(result(message, one), count)
        elif isinstance(returned, Iterator):
            for count, one in enumerate(returned, 1):
                await self._send_in_turn(result(message, one), count)
        elif type(returned) in (list, tuple):
            answers = [result(message, one) for one in returned]  # all of them make sense, or none is sent
            for count, answer in enumerate(answers, 1):
                await self._send_in_turn(answer, count)
        elif returned is not None:
            await self._send(result(message, returned))

    async def _send_in_turn(self, message: Message, count: int) -> None:
        await self._send(message)
        if not count % RESULTS_AT_ONCE:
            await asyncio.sleep(0)

    def _send_soon(self, message: Message) -> None:
        """Send now, or wait for room in a task. The place in the queue is taken now in any case."""
        exchange = self._services.exchange
        delivery = delivery_of(message, exchange.clock())
        if not exchange.submit(delivery):
            self._wait_in_task(delivery)

    async def _send(self, message: Message) -> None:
        exchange = self._services.exchange
        delivery = delivery_of(message, exchange.clock())
        if not exchange.submit(delivery):
            await self._wait_for_room(message, exchange.wait_for_room(delivery))

    def _wait_in_task(self, delivery: Delivery) -> None:
        place = self._services.exchange.wait_for_room(delivery)
        self._go_on(self._wait_for_room(delivery.message, place))

    async def _wait_for_room(self, message: Message, place: Place) -> None:
        try:
            await place.wait()
        finally:
            if place.is_withdrawn:
                self._services.exchange.abandoned(message, "its sender was stopped while it waited for room")

    def _fail(self, delivery: Delivery, span: HandlerSpan | None, error: BaseException) -> None:
        """Tell the caller, or whoever handles exceptions, that the handler failed."""
        message = delivery.message
        if isinstance(error, asyncio.CancelledError):
            error = HandlerCancelledError(f"the handler of {message.identifier} was stopped before it ended")
            log.warning("%s: %s", self.name, error)
        stack = "".join(traceback.format_exception(error)) if self._services.tell_stacks else ""
        told = ExceptionReport.of(error, stack)
        if not isinstance(error, HandlerCancelledError):
            what = f"{told.type_name}: {told.text}"
            log.error("the handler of %s in %s failed: %s", message.identifier, self.name, what, exc_info=error)
        if message.identifier == EXCEPTION and EXCEPTION not in message.callback_point:
            self._handled(span, error)  # nobody but this handler would get the report
            return
        self._send_soon(exception_result(message, told))
        self._handled(span, error)

    def _handled(self, span: HandlerSpan | None, error: BaseException | None) -> None:
        self._services.exchange.handled(error)
        if span is not None:
            try:
                span.end(error)
            except Exception:
                log.exception("telemetry failed")

    # -- tasks, and their end ----------------------------------------------------------------------------------------

    def _go_on(self, rest: Coroutine[Any, Any, None]) -> None:
        """Do the rest in a task. It counts as running until it ends, which is how a full receiver slows its senders."""
        if self._tasks is None:
            self._tasks = {}
        self._running += 1
        task: asyncio.Task[None] = asyncio.Task(rest, loop=self._services.loop, **_EAGER)
        if task.done():
            self._ended(task)
        else:
            self._tasks[task] = None
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running -= 1
        if self._tasks is not None:
            self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: a task of its host failed: %s", self.name, error, exc_info=error)
        if self._deliveries and not self._scheduled:
            self._schedule()
        elif self._idle is not None:
            self._tell_if_idle()

    def is_idle(self) -> bool:
        """Tell whether nothing waits and nothing runs."""
        return not (self._deliveries or self._running or self._scheduled)

    def _tell_if_idle(self) -> None:
        if self._idle is not None and not self._idle.done() and self.is_idle():
            self._idle.set_result(None)

    async def idle(self) -> None:
        """Wait until nothing waits and nothing runs."""
        while not self.is_idle():
            if self._idle is None or self._idle.done():
                self._idle = self._services.loop.create_future()
            await asyncio.shield(self._idle)

    def close(self) -> list[Delivery]:
        """Take no more messages, and give those that nobody will handle here."""
        left = list(self._deliveries)
        self._deliveries.clear()
        self._capacity = 0
        return left

    def runs(self, task: asyncio.Task[Any] | None) -> bool:
        """Tell whether a task is one of this actor's handlers."""
        return task is not None and task in (self._tasks or ())

    async def stop(self, grace: float) -> int:
        """Cancel what still runs, wait a little for it to end, and tell how many handlers were cancelled."""
        if self._tasks:
            await asyncio.sleep(0)  # one that was just made must begin, else it can tell nobody
        cancelled: dict[asyncio.Task[None], None] = {}
        ends = self._services.loop.time() + grace
        # What is cancelled may still have to tell its caller, in a task that waits for room: that is cancelled too.
        while tasks := [task for task in self._tasks or () if task not in cancelled]:
            cancelled |= dict.fromkeys(tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=max(0.0, ends - self._services.loop.time()))
            await asyncio.sleep(0)  # what they made begins
        if stubborn := [task for task in cancelled if not task.done()]:
            log.warning("%s: %d handlers do not stop", self.name, len(stubborn))
        return len(cancelled)
