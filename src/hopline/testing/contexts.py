"""A fake context: call a handler directly, and see what it sends.

Theory of operation. The context and its hub are the real ones. Only what is below them, the node's exchange, is
replaced by one that routes nothing: it records every message, and answers a request by what the test has scripted.
Hence a handler can do with a fake context whatever it can do with a real one, in the same words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from hopline.actors import exception_result, receipt, result
from hopline.client import Deadlines, HandlerHub, MessageHub
from hopline.message import (
    RECEIPT,
    AnyPayload,
    ArgumentError,
    ExceptionReport,
    HoplineError,
    Message,
    MessageIdentifier,
    Version,
    new_node_identity,
    payload_type,
    to_message,
)
from hopline.node import Context
from hopline.node.context import NodeRuntime
from hopline.routing import NO_DEADLINE, Delivery, Handling, Outcome, QueuedDelivery, delivery_of
from hopline.testing.clock import run
from hopline.testing.record import SentMessages

Result = TypeVar("Result")
_NOTHING = b"NOTHING"  # the identity of what is handled when a test does not say it


def context(handled: AnyPayload | None = None, *, timeout: float | None = None) -> FakeContext:
    """Return a context for calling a handler directly.

    Args:
        handled: The payload or message that the handler is called with, for `context.message` and the flow.
        timeout: Seconds that the caller of the handler still waits, which its requests inherit. Default: no limit.

    >>> from hopline import Actor, Context, Payload, Request, handler
    >>> from hopline.testing import expect, run
    >>> class Priced(Payload):
    ...     cents: int
    >>> class Price(Request[Priced]):
    ...     sku: str
    >>> class Looked(Payload):
    ...     sku: str
    >>> class Window(Actor):
    ...     @handler(Looked)
    ...     async def look(self, looked: Looked, context: Context) -> None:
    ...         await context.ask(Price(looked.sku))
    >>> handling = context()
    >>> handling.answer(Price, Priced(100))
    >>> run(Window().look(Looked("lamp"), handling))
    >>> expect(handling).sent(Price)
    [Price(sku='lamp')]
    """
    message = Message(_NOTHING) if handled is None else _as_message(handled)
    return FakeContext(message, timeout)


def _as_message(content: AnyPayload) -> Message:
    return content if isinstance(content, Message) else to_message(content)


class FakeContext(Context):
    """The context of a handler that a test calls directly. Make one with `context`.

    Attributes:
        record: What the handler has sent so far, for `expect`.
    """

    __slots__ = ("_exchange", "_hub", "record")

    def __init__(self, message: Message, timeout: float | None = None) -> None:
        self.record = SentMessages()
        self._exchange = _FakeExchange(self.record)
        self._hub: MessageHub | None = None
        deadline = NO_DEADLINE if timeout is None else self._exchange.clock() + timeout
        runtime = SimpleNamespace(exchange=self._exchange)
        super().__init__(message, cast(NodeRuntime, runtime), deadline=deadline)

    def answer(self, request: type | MessageIdentifier, *answers: Any) -> None:
        """Script what a request of the handler is answered with.

        A request without a script fails the test. One that waits for a receipt only gets it.

        Args:
            request: The kind of request.
            answers: Each is a payload, a `Message`, an exception, or a function that takes the request and returns one
                of these. Several answers belong to several requests, one after the other; the last one counts for all
                further ones. A list is several answers to one request, for a stream. An exception is what the other
                handler raises, and arrives as `ActorError`; one of Hopline, such as `AnswerTimeoutError`, is raised as
                it is.
        """
        if not answers:
            raise ArgumentError("answers", "at least one", answers)
        if isinstance(request, MessageIdentifier):
            self._exchange.add_script(request, _Script(None, answers))
        else:
            self.record.know(request)
            self._exchange.add_script(payload_type(request).identifier, _Script(request, answers))

    async def send(
        self, content: AnyPayload, *, partition: str | bytes | None = None, version: Version | None = None
    ) -> None:
        """Send a payload or message. It is recorded."""
        self.record.know_content(content)
        await super().send(content, partition=partition, version=version)

    def try_send(
        self, content: AnyPayload, *, partition: str | bytes | None = None, version: Version | None = None
    ) -> None:
        """Send a payload or message. It is recorded."""
        self.record.know_content(content)
        super().try_send(content, partition=partition, version=version)

    @property
    def hub(self) -> MessageHub:
        """A hub whose requests are recorded, and answered as the test says."""
        loop = asyncio.get_running_loop()
        if self._hub is None or self._hub._loop is not loop:
            deadlines = Deadlines(loop, self._exchange.clock)
            self._hub = MessageHub(self._exchange, deadlines, loop, node_identity=new_node_identity())
            self._exchange.hub = self._hub
        return HandlerHub(self._hub, self._deadline)

    def wait(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine for a blocking handler, in virtual time, and return its result."""
        return run(coroutine)


class _Script:
    """The answers to one kind of request."""

    def __init__(self, kind: type | None, answers: tuple[Any, ...]) -> None:
        self._kind = kind
        self._answers = list(answers)

    def next(self, request: Message) -> list[Any]:
        """Return the answers to a request."""
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        is_function = callable(answer) and not isinstance(answer, (type, BaseException))
        if is_function:
            answer = answer(request if self._kind is None else payload_type(self._kind).read(request.body))
        return answer if isinstance(answer, list) else [answer]


class _FakeExchange:
    """An exchange that records messages and answers requests by scripts, instead of routing them."""

    is_observed = True  # so that everything comes as a message
    observes_handlers = False  # there are none

    def __init__(self, record: SentMessages) -> None:
        self._scripts: dict[tuple[bytes, Version], _Script] = {}  # by identity and version, in any partition
        self.hub: MessageHub | None = None
        self._record = record

    def add_script(self, request: MessageIdentifier, script: _Script) -> None:
        """Answer a kind of request by a script."""
        self._scripts[request.identity, request.version] = script

    def clock(self) -> float:
        """Return the time of the running event loop; in a plain function there is none, and time does not pass."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    def submit(self, delivery: Delivery) -> bool:
        """Record a message, and answer it if it is a request."""
        self._record.submitted(delivery)
        message = delivery.message
        hub = self.hub
        if hub is not None and message.callback_receiver_identity == hub.identity:
            for answer in self._answers(message):
                hub.offer(delivery_of(answer, self.clock()))
        return True

    def _answers(self, request: Message) -> Iterable[Message]:
        script = self._scripts.get((request.identity, request.version))
        if script is not None:
            return [_answer(request, answer) for answer in script.next(request)]
        if RECEIPT in request.callback_point:
            return [receipt(request)]
        name = request.identity.decode(errors="replace")
        raise AssertionError(f"the handler asked {name}, and the test has no answer: context.answer({name}, ...)")

    def deliver_in_process(self, request: Message, identifier: MessageIdentifier, value: object) -> bool:  # noqa: ARG002
        """Return False: everything comes as a message."""
        return False

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:  # noqa: ARG002
        """Return the delivery as it is."""
        return delivery

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        """Do nothing."""

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str) -> None:
        """Do nothing."""

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """Do nothing."""

    def abandoned(self, message: Message, reason: str) -> None:
        """Do nothing."""

    def room_made(self, receiver: bytes, handled: Iterable[MessageIdentifier]) -> None:
        """Do nothing."""

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> Handling | None:
        """Do nothing."""

    def handled(self, error: BaseException | None) -> None:
        """Do nothing."""

    def wait_for_room(self, delivery: Delivery, within: float = NO_DEADLINE) -> QueuedDelivery:
        """Raise: there is always room."""
        raise NotImplementedError


def _answer(request: Message, answer: Any) -> Message:
    if isinstance(answer, HoplineError):
        raise answer
    if isinstance(answer, BaseException):
        return exception_result(request, ExceptionReport.of(answer))
    if request.callback_point == (RECEIPT,):
        return receipt(request)
    message = result(request, answer)
    if message.identifier not in request.callback_point:
        kinds = " or ".join(kind.identity.decode(errors="replace") for kind in request.callback_point)
        raise ArgumentError(f"the answer to {request.identifier}", f"what the handler waits for: {kinds}", answer)
    return message
