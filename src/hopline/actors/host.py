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
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Hashable, Iterator
from contextlib import aclosing, nullcontext
from contextvars import copy_context
from typing import Any

from hopline.actors.actor import Actor
from hopline.actors.flow import current_message
from hopline.actors.handler import HandlerDefinition
from hopline.actors.log import flow_log
from hopline.actors.mailbox import Mailbox
from hopline.actors.results import exception_result, result
from hopline.actors.services import HandlerSpan, Services
from hopline.message import EXCEPTION, ExceptionReport, HoplineError, LocalError, Message, MessageIdentifier
from hopline.routing import NO_DEADLINE, Delivery, Outcome, remaining_ticks

log = flow_log("hopline.actors")

# How long one actor may go through its mailbox before the others get their turn, in seconds and in messages.
TURN_SECONDS = 0.005
TURN_MESSAGES = 256
# After how many results of a flooding handler the others get their turn.
RESULTS_AT_ONCE = 64

_HANDLER_ERRORS = (Exception, asyncio.CancelledError)
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


@functools.lru_cache(maxsize=1024)
def _takes_time(kind: Hashable) -> bool:
    """Tell whether what a handler returned is several things, or something to wait for."""
    return kind in (list, tuple) or (isinstance(kind, type) and issubclass(kind, (Awaitable, Iterator, AsyncIterator)))


class HandlerCancelledError(HoplineError):
    """The handler was stopped before it ended: its node or its actor went away, or it cancelled itself."""


class ActorHost:
    """Where one actor lives on a node."""

    __slots__ = (
        "_concurrency",
        "_handlers",
        "_idle",
        "_mailbox",
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
        self._mailbox = Mailbox(actor.mailbox_capacity or services.mailbox_capacity)
        self._concurrency = actor.concurrency or services.concurrency
        self._running = 0  # handlers that are under way in a task
        self._scheduled = False
        self._tasks: dict[asyncio.Task[None], None] | None = None  # in the order of their start
        self._idle: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """The actor as people know it."""
        return type(self.actor).__qualname__

    @property
    def waiting(self) -> int:
        """How many messages wait in the mailbox."""
        return len(self._mailbox)

    @property
    def running(self) -> int:
        """How many handlers are under way."""
        return self._running

    # -- taking messages ---------------------------------------------------------------------------------------------

    def offer(self, delivery: Delivery) -> bool:
        """Put a delivery into the mailbox, unless it is full."""
        if not self._mailbox.offer(delivery):
            return False
        if not self._scheduled:
            self._schedule()
        return True

    async def room(self) -> None:
        """Wait until there may be room in the mailbox."""
        await self._mailbox.room()

    def _schedule(self) -> None:
        if self._running < self._concurrency:
            self._scheduled = True
            self._services.loop.call_soon(self._take_turn, context=self._services.base_context)

    def _take_turn(self) -> None:
        """Handle what waits, for a while; then the others."""
        self._scheduled = False
        mailbox, clock, slow_handler = self._mailbox, self._services.exchange.clock, self._services.slow_handler
        deliveries = mailbox.deliveries
        now = clock()
        turn_ends = now + TURN_SECONDS
        for _ in range(TURN_MESSAGES):
            if not deliveries or self._running >= self._concurrency or now > turn_ends:
                break
            delivery = mailbox.take()
            if delivery.deadline <= now:
                self._services.exchange.ended(delivery, Outcome.EXPIRED, "its lifetime was over in the mailbox")
            else:
                # In a context of its own: what one handler sets, others do not see.
                self._services.base_context.copy().run(self._handle, delivery, now)
                since, now = now, clock()
                if now - since > slow_handler:
                    self._warn_of_slow(delivery.message, now - since)
        if deliveries and not self._scheduled:
            self._schedule()
        elif self._idle is not None:
            self._tell_if_idle()

    # -- running handlers --------------------------------------------------------------------------------------------

    def _handle(self, delivery: Delivery, now: float) -> None:
        """Call the handler, and send what it returned if that can be done at once."""
        services, message = self._services, delivery.message
        services.exchange.delivered(delivery, self.identity)
        current_message.set(message)
        definition = self._handlers.get(message.identifier)
        span = None
        if services.telemetry is not None:
            span = services.telemetry.begin(delivery, self.name if definition is None else definition.name)
        try:
            if definition is None:
                raise LocalError(self.name, "a message that it handles", str(message.identifier))
            if definition.blocking:
                returned: Any = self._in_thread(definition, delivery, now)
            else:
                returned = self._call(definition, delivery, now)
            if self._sent_at_once(message, returned):
                self._handled(span, None)
            else:
                self._go_on(self._finish(delivery, span, returned))
        except _HANDLER_ERRORS as error:
            self._fail(delivery, span, error)
        finally:
            if span is not None:
                span.detach()

    def _call(self, definition: HandlerDefinition, delivery: Delivery, now: float) -> Any:
        message = delivery.message
        sees_message = definition.content is None or definition.wants_context
        if sees_message and delivery.deadline != NO_DEADLINE:
            message = message.clone(ttl_ticks=remaining_ticks(delivery, now))
        content: Any = message
        if definition.content is not None and definition.serializer is not None:
            content = definition.serializer.decode(message.body, definition.content)
        if definition.wants_context:
            context = self._services.context_type(message, self._services, blocking=definition.blocking)
            return definition.function(self.actor, content, context)
        return definition.function(self.actor, content)

    async def _in_thread(self, definition: HandlerDefinition, delivery: Delivery, now: float) -> Any:
        def call() -> Any:
            try:
                returned = self._call(definition, delivery, now)
            except StopIteration as error:  # which no future can hold
                raise RuntimeError("the handler raised StopIteration") from error
            if not inspect.isgenerator(returned):
                return returned
            for one in returned:  # each is sent as it comes, and waits for room here
                sending = self._send(result(delivery.message, one))
                asyncio.run_coroutine_threadsafe(sending, self._services.loop).result()
            return None

        return await self._services.loop.run_in_executor(self._services.threads, copy_context().run, call)

    def _warn_of_slow(self, message: Message, held: float) -> None:
        advice = "blocking=True would run it in a thread"
        what = message.identifier
        log.warning("%s held the event loop for %.1f s to handle %s; %s", self.name, held, what, advice, flow=message)

    # -- sending results ---------------------------------------------------------------------------------------------

    def _sent_at_once(self, message: Message, returned: Any) -> bool:
        """Send what a plain function returned, unless it has to be awaited or there is no room for it."""
        if returned is None:
            return True
        if _takes_time(returned.__class__):
            return False
        answer = result(message, returned)
        if self._services.exchange.try_submit(answer):
            return True
        self._go_on(self._send(answer))
        return True

    async def _finish(self, delivery: Delivery, span: HandlerSpan | None, returned: Any) -> None:
        """See a handler through that did not end at once."""
        try:
            while isinstance(returned, Awaitable):
                returned = await returned
            await self._send_all(delivery.message, returned)
        except _HANDLER_ERRORS as error:
            self._fail(delivery, span, error)
        else:
            self._handled(span, None)

    async def _send_all(self, message: Message, returned: Any) -> None:
        if isinstance(returned, AsyncIterator):
            async with aclosing(returned) if isinstance(returned, AsyncGenerator) else nullcontext():
                async for one in returned:
                    await self._send(result(message, one))
        elif isinstance(returned, Iterator):
            for count, one in enumerate(returned, 1):
                await self._send(result(message, one))
                if not count % RESULTS_AT_ONCE:
                    await asyncio.sleep(0)
        elif type(returned) in (list, tuple):
            for answer in [result(message, one) for one in returned]:  # all of them make sense, or none is sent
                await self._send(answer)
        elif returned is not None:
            await self._send(result(message, returned))

    async def _send(self, message: Message) -> None:
        exchange = self._services.exchange
        if not exchange.try_submit(message):
            try:
                await exchange.submit(message)
            except asyncio.CancelledError:
                exchange.abandoned(message, "its sender was stopped while it waited for room")
                raise

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
        report = exception_result(message, told)
        if not self._services.exchange.try_submit(report):
            self._go_on(self._send(report))
        self._handled(span, error)

    def _handled(self, span: HandlerSpan | None, error: BaseException | None) -> None:
        self._services.exchange.handled(error)
        if span is not None:
            span.end(error)

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
        if self._mailbox and not self._scheduled:
            self._schedule()
        elif self._idle is not None:
            self._tell_if_idle()

    def is_idle(self) -> bool:
        """Tell whether nothing waits and nothing runs."""
        return not (self._mailbox or self._running or self._scheduled)

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
        return self._mailbox.close()

    def runs(self, task: asyncio.Task[Any] | None) -> bool:
        """Tell whether a task is one of this actor's handlers."""
        return task is not None and task in (self._tasks or ())

    async def stop(self, grace: float) -> int:
        """Cancel what still runs, wait a little for it to end, and tell how many handlers were cancelled."""
        if self._tasks:
            await asyncio.sleep(0)  # one that was just made must begin, else it can tell nobody
        tasks = list(self._tasks or ())
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=grace)
            if stubborn:
                log.warning("%s: %d handlers do not stop", self.name, len(stubborn))
        return len(tasks)
