"""The host of one actor: queues its messages, runs its handlers, sends what they return.

Theory of operation. `offer` appends a delivery to the mailbox and schedules a turn on the event loop. In its turn the
host handles deliveries one after the other, for at most `TURN_SECONDS` or `TURN_MESSAGES`, and then lets others run.

A handler runs in one of three ways:

* a plain function is called directly from the loop, without a task; most handlers are of this kind;
* what needs time (a coroutine, an iterator, several results) goes on in a task, which `_finish` sees through;
* a blocking function runs in a thread, and its task waits for it.

Every delivery is handled exactly once and counted as handled once, whichever way it takes and however it ends. At most
`concurrency` tasks run at a time; while they do, messages stay in the mailbox, the mailbox fills, and senders wait. A
result that has to wait for room at its receiver occupies a task too: that is how a slow receiver slows its senders.

A handler runs in a copy of the node's base context. What it sets in context variables is seen by its own tasks and
threads, and by no other handler. Errors stay in the flow of the message: whatever a handler does wrong (raise, hang,
return something that is no result), its caller is notified and the host goes on with the next delivery.

`offer`, `_take_turn` and `_handle` run for every message. Hence the common case is written in place in `_handle`, and
functions that are looked up on other objects are bound to local names first, which makes the call faster.
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
from hopline.actors.runtime import ActorRuntime
from hopline.message import (
    EXCEPTION,
    PAYLOAD_MARK,
    ArgumentError,
    ExceptionReport,
    HoplineError,
    Message,
    MessageIdentifier,
)
from hopline.routing import (
    NO_DEADLINE,
    Delivery,
    Handling,
    Label,
    Outcome,
    QueuedDelivery,
    delivery_of,
    remaining_ticks,
)

log = flow_log("hopline.actors")

# How long one actor may handle messages before others get their turn.
TURN_SECONDS = 0.005
TURN_MESSAGES = 256
# How many results a handler may send in a row before others get their turn.
RESULTS_AT_ONCE = 64

_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


@functools.lru_cache(maxsize=1024)
def _takes_time(kind: Hashable) -> bool:
    """Return whether a value of this class, returned by a handler, stands for several results or for a later one."""
    return kind in (list, tuple) or (isinstance(kind, type) and issubclass(kind, (Awaitable, Iterator, AsyncIterator)))


_set_current_message = current_message.set


class HandlerCancelledError(HoplineError):
    """The handler was cancelled before it finished: its node stopped, its actor was removed, or it cancelled itself."""


class ActorHost:
    """Runs one actor on a node."""

    __slots__ = (
        "_capacity",
        "_concurrency",
        "_deliveries",
        "_handlers",
        "_idle",
        "_running",
        "_runtime",
        "_scheduled",
        "_tasks",
        "actor",
        "identity",
    )

    confirms_receipts = True

    def __init__(
        self, actor: Actor, definitions: dict[MessageIdentifier, HandlerDefinition], runtime: ActorRuntime
    ) -> None:
        self.actor = actor
        self.identity = actor.identity
        self._runtime = runtime
        self._handlers = definitions
        self._capacity = actor.mailbox_capacity or runtime.mailbox_capacity
        self._deliveries: deque[Delivery] = deque()  # the mailbox
        self._concurrency = actor.concurrency or runtime.concurrency
        self._running = 0  # tasks of handlers and of results that wait for room
        self._scheduled = False
        self._tasks: dict[asyncio.Task[None], None] | None = None  # in the order of their start
        self._idle: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """The name of the actor's class."""
        return type(self.actor).__qualname__

    def label(self, identifier: MessageIdentifier) -> Label:
        """Return the names of the actor's class and of the method that handles a kind of message."""
        definition = self._handlers.get(identifier)
        return self.name, None if definition is None else definition.method

    @property
    def waiting(self) -> int:
        """Number of messages in the mailbox."""
        return len(self._deliveries)

    @property
    def running(self) -> int:
        """Number of handlers that run in tasks."""
        return self._running

    # -- taking messages ---------------------------------------------------------------------------------------------

    def offer(self, delivery: Delivery) -> bool:
        """Append a delivery to the mailbox, or return False if it is full."""
        if len(self._deliveries) >= self._capacity:
            return False
        self._deliveries.append(delivery)
        if not self._scheduled:
            self._schedule()
        return True

    def _schedule(self) -> None:
        if self._running < self._concurrency:
            self._scheduled = True
            self._runtime.loop.call_soon(self._take_turn, context=self._runtime.base_context)

    def _take_turn(self) -> None:
        """Handle deliveries for a limited time."""
        self._scheduled = False
        exchange, deliveries, handle = self._runtime.exchange, self._deliveries, self._handle
        clock, slow_handler, full = exchange.clock, self._runtime.slow_handler, self._capacity
        new_context = self._runtime.base_context.copy
        now = clock()
        turn_ends = now + TURN_SECONDS
        try:
            for _ in range(TURN_MESSAGES):
                if not deliveries or self._running >= self._concurrency or now > turn_ends:
                    break
                waiting = len(deliveries)
                delivery = deliveries.popleft()
                if waiting >= full:
                    exchange.room_made(self.identity, self._handlers)
                if delivery.deadline <= now:
                    exchange.ended(delivery, Outcome.EXPIRED, "its lifetime was over in the mailbox")
                else:
                    # In a context of its own: other handlers do not see what this one sets.
                    since, now = now, new_context().run(handle, delivery, now)
                    if now - since > slow_handler:
                        self._warn_of_slow(delivery.message, now - since)
        finally:  # even after KeyboardInterrupt the rest of the mailbox gets its turn
            if deliveries and not self._scheduled:
                self._schedule()
            elif self._idle is not None:
                self._notify_if_idle()

    # -- running handlers --------------------------------------------------------------------------------------------

    def _handle(self, delivery: Delivery, now: float) -> float:
        """Handle a delivery, as far as that is possible at once. Return the time when the handler returned."""
        runtime = self._runtime
        exchange = runtime.exchange
        clock, delivered, handled = exchange.clock, exchange.delivered, exchange.handled
        delivery = delivered(delivery, self.identity)
        message = delivery.message
        _set_current_message(message)
        definition = self._handlers.get(delivery.identifier)
        handling = self._begin_handling(delivery, definition) if exchange.observes_handlers else None
        try:
            # 1. Call the handler; in place if it takes a payload and nothing else.
            if definition is None or definition.read is None:
                returned: Any = self._start(definition, delivery, now)
            else:
                read, function = definition.read, definition.function
                content: Any = delivery.content
                if content.__class__ is not definition.content:
                    bodies = message.bodies
                    content = read(bodies[0] if bodies else b"")
                returned = function(self.actor, content)
            now = clock()
            # 2. Send what it returned; in place if that is one payload.
            if returned is not None:
                kind = getattr(returned.__class__, PAYLOAD_MARK, None)
                if kind is None or not kind.is_plain or kind.of is not returned.__class__:
                    return self._send_other(delivery, handling, returned, now)
                write, is_value = kind.write, kind.is_value
                try:
                    body = write(returned)
                except Exception:
                    body = kind.serializer.encode(returned)  # raises an error that names the problem
                is_passed = False
                if is_value is not None and is_value(returned):
                    is_passed = exchange.deliver_in_process(message, kind.identifier, returned)
                if not is_passed:
                    answer = Delivery(plain_result(message, kind.identifier, body), kind.identifier, now)
                    if not exchange.submit(answer):
                        self._wait_in_task(answer)
            # 3. Count it.
            if handling is None:
                handled(None)
            else:
                self._handled(handling, None)
            return now
        except BaseException as error:  # not only Exception: extension modules may raise others, and the caller waits
            self._fail(delivery, handling, error)
            return clock()
        finally:
            if handling is not None:
                handling.detach()

    def _begin_handling(self, delivery: Delivery, definition: HandlerDefinition | None) -> Handling | None:
        handler = self.name if definition is None else definition.name
        return self._runtime.exchange.handling(delivery, self.identity, handler)

    def _start(self, definition: HandlerDefinition | None, delivery: Delivery, now: float) -> Any:
        """Call any handler, in a thread if it blocks."""
        if definition is None:
            raise ArgumentError(self.name, "a message that it handles", str(delivery.identifier))
        if definition.blocking:
            return self._in_thread(definition, delivery, now)
        return self._call(definition, delivery, now)

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
            context = self._runtime.context_type(
                message, self._runtime, blocking=definition.blocking, deadline=delivery.deadline
            )
            return definition.function(self.actor, content, context)
        return definition.function(self.actor, content)

    async def _in_thread(self, definition: HandlerDefinition, delivery: Delivery, now: float) -> Any:
        is_over = False

        def call() -> Any:
            try:
                returned = self._call(definition, delivery, now)
            except StopIteration as error:  # futures cannot hold it
                raise RuntimeError("the handler raised StopIteration") from error
            if not inspect.isgenerator(returned):
                return returned
            with closing(returned):
                for content in returned:  # sent one by one; a full receiver blocks this thread
                    if is_over:
                        break
                    sending = self._send(result(delivery.message, content))
                    asyncio.run_coroutine_threadsafe(sending, self._runtime.loop).result()
            return None

        try:
            return await self._runtime.loop.run_in_executor(self._runtime.threads, copy_context().run, call)
        finally:
            is_over = True  # a generator whose task was cancelled stops at its next result

    def _warn_of_slow(self, message: Message, held: float) -> None:
        text = "%s held the event loop for %.1f s to handle %s; blocking=True would run it in a thread"
        log.warning(text, self.name, held, message.identifier, flow=message)

    # -- sending results ---------------------------------------------------------------------------------------------

    def _send_other(self, delivery: Delivery, handling: Handling | None, returned: Any, now: float) -> float:
        """Send what is not a single payload. Return the time when the handler returned, or its task was started."""
        if _takes_time(returned.__class__):
            self._go_on(self._finish(delivery, handling, returned))
            return self._runtime.exchange.clock()  # the task may have begun already
        self._send_soon(result(delivery.message, returned))
        self._handled(handling, None)
        return now

    async def _finish(self, delivery: Delivery, handling: Handling | None, returned: Any) -> None:
        """Wait for a handler that did not finish at once, and send its results."""
        task = asyncio.current_task()
        if task is not None and self._tasks is not None:
            self._tasks[task] = None  # an eager task runs before `_go_on` can note it
        try:
            while isinstance(returned, Awaitable):
                returned = await returned
            await self._send_all(delivery.message, returned)
        except GeneratorExit:  # the coroutine is being destroyed, together with its event loop
            raise
        except BaseException as error:
            self._fail(delivery, handling, error)
        else:
            self._handled(handling, None)

    async def _send_all(self, message: Message, returned: Any) -> None:
        if isinstance(returned, AsyncIterator):
            async with aclosing(returned) if isinstance(returned, AsyncGenerator) else nullcontext():
                count = 0
                async for content in returned:
                    count += 1
                    await self._send_in_turn(result(message, content), count)
        elif isinstance(returned, Iterator):
            for count, content in enumerate(returned, 1):
                await self._send_in_turn(result(message, content), count)
        elif type(returned) in (list, tuple):
            answers = [result(message, content) for content in returned]  # first all: one that is no result stops all
            for count, answer in enumerate(answers, 1):
                await self._send_in_turn(answer, count)
        elif returned is not None:
            await self._send(result(message, returned))

    async def _send_in_turn(self, message: Message, count: int) -> None:
        await self._send(message)
        if not count % RESULTS_AT_ONCE:
            await asyncio.sleep(0)

    def _send_soon(self, message: Message) -> None:
        """Send now, or queue now and wait for room in a task."""
        exchange = self._runtime.exchange
        delivery = delivery_of(message, exchange.clock())
        if not exchange.submit(delivery):
            self._wait_in_task(delivery)

    async def _send(self, message: Message) -> None:
        exchange = self._runtime.exchange
        delivery = delivery_of(message, exchange.clock())
        if not exchange.submit(delivery):
            await self._wait_for_room(message, exchange.wait_for_room(delivery))

    def _wait_in_task(self, delivery: Delivery) -> None:
        queued = self._runtime.exchange.wait_for_room(delivery)
        self._go_on(self._wait_for_room(delivery.message, queued))

    async def _wait_for_room(self, message: Message, queued: QueuedDelivery) -> None:
        try:
            await queued.wait()
        finally:
            if queued.is_withdrawn:
                self._runtime.exchange.abandoned(message, "its sender was stopped while it waited for room")

    def _fail(self, delivery: Delivery, handling: Handling | None, error: BaseException) -> None:
        """Report the failure of a handler to the caller, or to an actor that handles exceptions.

        `KeyboardInterrupt` and `SystemExit` are meant for the process: they are raised again.
        """
        message = delivery.message
        if isinstance(error, asyncio.CancelledError):
            error = HandlerCancelledError(f"the handler of {message.identifier} was stopped before it ended")
            log.warning("%s: %s", self.name, error)
        stack = "".join(traceback.format_exception(error)) if self._runtime.include_tracebacks else ""
        report = ExceptionReport.of(error, stack)
        if not isinstance(error, HandlerCancelledError):
            summary = f"{report.type_name}: {report.text}"
            log.error("the handler of %s in %s failed: %s", message.identifier, self.name, summary, exc_info=error)
        self._runtime.exchange.failed(delivery, error)
        is_own_receiver = message.identifier == EXCEPTION and EXCEPTION not in message.callback_point
        if not is_own_receiver:  # else this very handler would get the report, and fail again
            self._send_soon(exception_result(message, report))
        self._handled(handling, error)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error

    def _handled(self, handling: Handling | None, error: BaseException | None) -> None:
        self._runtime.exchange.handled(error)
        if handling is not None:
            handling.end(error)

    # -- tasks and stopping ------------------------------------------------------------------------------------------

    def _go_on(self, rest: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task, which counts against `concurrency` until it is done."""
        if self._tasks is None:
            self._tasks = {}
        self._running += 1
        task: asyncio.Task[None] = asyncio.Task(rest, loop=self._runtime.loop, **_EAGER)
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
            self._notify_if_idle()

    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing runs."""
        return not (self._deliveries or self._running or self._scheduled)

    def _notify_if_idle(self) -> None:
        if self._idle is not None and not self._idle.done() and self.is_idle():
            self._idle.set_result(None)

    async def idle(self) -> None:
        """Wait until nothing waits and nothing runs."""
        while not self.is_idle():
            if self._idle is None or self._idle.done():
                self._idle = self._runtime.loop.create_future()
            await asyncio.shield(self._idle)

    def close(self) -> list[Delivery]:
        """Refuse further messages. Return those that were not handled."""
        unhandled = list(self._deliveries)
        self._deliveries.clear()
        self._capacity = 0
        return unhandled

    def runs(self, task: asyncio.Task[Any] | None) -> bool:
        """Return whether a task is one of this actor's handlers."""
        return task is not None and task in (self._tasks or ())

    async def stop(self, grace: float) -> int:
        """Cancel the tasks that still run, and wait for them for `grace` seconds. Return how many were cancelled."""
        if self._tasks:
            await asyncio.sleep(0)  # a task that never began could not notify its caller
        cancelled: dict[asyncio.Task[None], None] = {}
        ends = self._runtime.loop.time() + grace
        # A cancelled handler may send a report in a new task, which waits for room: that is cancelled too.
        while tasks := [task for task in self._tasks or () if task not in cancelled]:
            cancelled |= dict.fromkeys(tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=max(0.0, ends - self._runtime.loop.time()))
            await asyncio.sleep(0)  # let new tasks begin
        if stubborn := [task for task in cancelled if not task.done()]:
            log.warning("%s: %d cancelled handlers still run", self.name, len(stubborn))
        return len(cancelled)
