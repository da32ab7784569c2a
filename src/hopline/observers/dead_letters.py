"""Dead letters: the messages that ended badly, for a hook of the application.

A message ends badly if it reached no receiver, or if its handler failed. The hook is for what an application does then
beside telling the caller, who gets an error anyway: keep the message, count it, raise an alarm.

The hook is called on the node's event loop, but never while the node is at work on a message: letters are kept, and
handed over in the next turns of the loop, `LETTERS_AT_ONCE` in each. At most `LETTERS_KEPT` wait; further ones are
dropped, and the log says how many. A hook that raises is logged, and gets the next letter. A node that stops hands over
all that wait before it has stopped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from hopline.actors import flow_log
from hopline.message import EXCEPTION, RECEIPT, ExceptionReport, Message
from hopline.observers.observer import NodeObserver
from hopline.routing import Delivery, Outcome
from hopline.transport import Frames

log = flow_log("hopline.dead_letters")

LETTERS_KEPT = 1_000
LETTERS_AT_ONCE = 100
HANDLER_ERROR = "handler_error"

_REPORTS = frozenset({EXCEPTION.identity, RECEIPT.identity})


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that ended badly, as passed to the `on_dead_letter` hook."""

    message: Message
    outcome: str
    """An `Outcome` such as ``"unroutable"``, or ``"handler_error"``: a handler has started on it and failed."""
    reason: str
    """Details; for a handler's error its type and text."""


class DeadLetters(NodeObserver):
    """Calls a function with every message that ended badly. Receipts and failure reports are none of them."""

    def __init__(self, hook: Callable[[DeadLetter], object], loop: asyncio.AbstractEventLoop) -> None:
        self._hook = hook
        self._loop = loop
        self._letters: deque[DeadLetter] = deque()
        self._dropped = 0  # since the last turn
        self._is_scheduled = False

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str, frames: Frames | None) -> None:  # noqa: ARG002 - the event's signature
        """Keep a message that reached no receiver."""
        self._keep(delivery.message, outcome.value, reason)

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """Keep a message whose handler failed."""
        report = ExceptionReport.of(error)
        self._keep(delivery.message, HANDLER_ERROR, f"{report.type_name}: {report.text}")

    def _keep(self, message: Message, outcome: str, reason: str) -> None:
        is_known = bool(message.identity)  # else its frames could not be decoded
        if not is_known or message.identity in _REPORTS:
            return
        if len(self._letters) >= LETTERS_KEPT:
            self._dropped += 1
            return
        self._letters.append(DeadLetter(message, outcome, reason))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._is_scheduled = False
        self.hand_over(LETTERS_AT_ONCE)
        if self._letters:
            self._schedule()

    def hand_over(self, most: int = LETTERS_KEPT) -> None:
        """Hand over the letters that wait now, or the first of them."""
        if self._dropped:
            log.warning("%d dead letters were dropped: on_dead_letter is too slow for them", self._dropped)
            self._dropped = 0
        for _ in range(min(most, len(self._letters))):
            self._call(self._letters.popleft())

    def _call(self, letter: DeadLetter) -> None:
        try:
            self._hook(letter)
        except Exception:
            log.exception("on_dead_letter failed", flow=letter.message)
