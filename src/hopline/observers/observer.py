"""The one seam through which a node is observed: a set of events, and the observers that receive them.

Theory of operation. The router, the actor hosts, the hubs and the network connection report what happens to messages
to `Observers`; capture, OpenTelemetry, the failure log and the `on_outcome` hook are `NodeObserver`s behind it. Every
event is an attribute of `Observers`: None while no observer listens to it, else one function that calls all listeners.
So an event without listeners costs the node one test. `is_observed` combines the tests of the hot path into one: while
it is set, answers inside the node are messages, too. `observes_handlers` is apart from it, so that timing handlers does
not cost that.

A message that is submitted on this node goes through these events:

    submitting -> submitted | refused
    sending -> sent [-> returned], for each copy to another node
    delivered [-> handling -> failed, end of the handling] [-> resolved], for each copy to a receiver of this node
    ended, if it reaches neither

One that comes from another node begins with `received` instead. What an observer has to find again later travels on
the `Delivery`: `submitting` and `delivered` return the delivery with which the node goes on.

Invariants:

* `submitting` runs in the context of the submitter and before routing, because routing may report further events.
  `refused` says that the receiver was full: the submission did not happen, and may be tried again with the same
  delivery. Messages that the node creates itself (receipts, failure reports) are reported by `submitted` alone.
* An observer that raises is logged and otherwise ignored: no message is lost to its observer. Two exceptions are called
  directly, and must not raise: `received` and `frames_sent` when they have one listener, because they run for every
  message on the wire, and `handling` when its only listener belongs to an observer that says it `never_raises`.
* Control messages (about routes) are no concern of applications, hence the separate events for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hopline.message import Message, get_logger
from hopline.routing import Delivery, Handling, Outcome
from hopline.transport import Frames

log = get_logger("hopline.observers")

Listener: TypeAlias = Callable[..., Any]
Combination: TypeAlias = Callable[[Sequence[Listener]], Listener]


class NodeObserver:
    """Receives the events of a node. Every method does nothing: override those of interest."""

    never_raises = False  # whether `handling` may be called directly, without the care for an observer that fails

    # -- messages of applications --------------------------------------------------------------------------------------

    def submitting(self, delivery: Delivery) -> Delivery:
        """Note that a hub or actor submits a message. Return its delivery, with what is to be found on it later."""
        return delivery

    def submitted(self, delivery: Delivery) -> None:
        """Note that the node has taken a message."""

    def refused(self, delivery: Delivery) -> None:
        """Note that the node has no room for a message, which therefore counts as not submitted."""

    def sending(self, message: Message, delivery: Delivery) -> Message:  # noqa: ARG002 - for those who override it
        """Note that a message is about to leave for another node. Return it, with what it is to carry there."""
        return message

    def sent(
        self,
        delivery: Delivery,
        message: Message,
        peer: bytes,
        when: float,
    ) -> None:
        """Note that a link has accepted a message, in this form, for another node; `when` it was offered."""

    def returned(self, delivery: Delivery) -> None:
        """Note that a link could not deliver a message that it had accepted; the node routes it again."""

    def received(self, frames: Frames | None, message: Message, when: float) -> int | None:
        """Note that a message came from another node, in these frames if they are known.

        Returns:
            The number of the record of it, if there is one.
        """

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:  # noqa: ARG002 - for those who override it
        """Note that a hub or actor starts on a message. Return its delivery, as for `submitting`."""
        return delivery

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> Handling | None:
        """Note that a handler starts, in its own context. Return what is to be called when it finishes, if anything."""

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """Note that the handler of a message that was delivered failed."""

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        """Note that a promise or stream of a hub accepted a message that was delivered."""

    def ended(
        self,
        delivery: Delivery,
        outcome: Outcome,
        reason: str,
        frames: Frames | None,
    ) -> int | None:
        """Note that a message ended without reaching a receiver; `frames` if it was rejected on arrival.

        Returns:
            The number of the record of it, if there is one.
        """

    # -- the wire, and control messages --------------------------------------------------------------------------------

    def frames_sent(self, peer: bytes, frames: Frames, when: float) -> None:
        """Note that frames left for another node, through this node's own network connection."""

    def frames_received(self, frames: Frames, peer: bytes | None) -> None:
        """Note that frames came that are not routed: a control message, or frames that cannot be decoded."""

    def control_submitted(self, message: Message) -> None:
        """Note that the node has a control message to send."""

    def control_delivered(self, message: Message) -> None:
        """Note that the node has accepted a control message."""

    def control_ended(
        self,
        message: Message,
        outcome: Outcome,
        reason: str,
        frames: Frames | None = None,
    ) -> None:
        """Note that a control message was rejected, or could not be sent."""

    # -- what is of interest -------------------------------------------------------------------------------------------

    def listeners(self) -> dict[str, Listener]:
        """Return the functions to call, by event: the methods that the class overrides.

        Override this to listen to less at times, or with another function; call `Observers.refresh` on a change.
        """
        own = type(self)
        listeners = {}
        for event in EVENTS:
            is_overridden = getattr(own, event) is not getattr(NodeObserver, event)
            if is_overridden:
                listeners[event] = getattr(self, event)
        return listeners


_PUBLIC_METHODS = [name for name, value in vars(NodeObserver).items() if callable(value) and not name.startswith("_")]
EVENTS = tuple(name for name in _PUBLIC_METHODS if name != "listeners")


class Observers:
    """All observers of one node as one: each event is None, or a function that calls every listener."""

    submitting: Callable[[Delivery], Delivery] | None
    submitted: Callable[[Delivery], None] | None
    refused: Callable[[Delivery], None] | None
    sending: Callable[[Message, Delivery], Message] | None
    sent: Callable[[Delivery, Message, bytes, float], None] | None
    returned: Callable[[Delivery], None] | None
    received: Callable[[Frames | None, Message, float], int | None] | None
    delivered: Callable[[Delivery, bytes], Delivery] | None
    handling: Callable[[Delivery, bytes, str], Handling | None] | None
    failed: Callable[[Delivery, BaseException], None] | None
    resolved: Callable[[Delivery, bytes], None] | None
    ended: Callable[[Delivery, Outcome, str, Frames | None], int | None] | None
    frames_sent: Callable[[bytes, Frames, float], None] | None
    frames_received: Callable[[Frames, bytes | None], None] | None
    control_submitted: Callable[[Message], None] | None
    control_delivered: Callable[[Message], None] | None
    control_ended: Callable[..., None] | None

    def __init__(self) -> None:
        self.is_observed = False  # whether an observer listens to events of every message
        self.observes_handlers = False  # whether an observer follows handlers
        self._observers: list[NodeObserver] = []
        self._followers: list[Callable[[], None]] = []
        self.refresh()

    def add(self, observer: NodeObserver) -> None:
        """Report all further events to an observer too."""
        self._observers.append(observer)
        self.refresh()

    def on_change(self, follower: Callable[[], None]) -> None:
        """Call a function now, and whenever the listeners have changed."""
        self._followers.append(follower)
        follower()

    def refresh(self) -> None:
        """Ask every observer again which events it listens to."""
        by_observer = [observer.listeners() for observer in self._observers]
        for event in EVENTS:
            listeners = [listeners_of[event] for listeners_of in by_observer if event in listeners_of]
            combine = _COMBINATIONS.get(event, _call_all)
            combined = combine(listeners) if listeners else None
            setattr(self, event, combined)
        self.is_observed = self.submitting is not None or self.delivered is not None
        self.observes_handlers = self.handling is not None
        for follower in self._followers:
            follower()


# -- several listeners as one ------------------------------------------------------------------------------------------


def _call_all(listeners: Sequence[Listener]) -> Listener:
    def call_all(*arguments: Any) -> None:
        for listener in listeners:
            _call(listener, None, *arguments)

    return call_all


def _call_in_turn(listeners: Sequence[Listener]) -> Listener:
    """Pass what one listener returns to the next, as its first argument."""

    def call_in_turn(subject: Any, *arguments: Any) -> Any:
        for listener in listeners:
            subject = _call(listener, subject, subject, *arguments)
        return subject

    return call_in_turn


def _first_answer(listeners: Sequence[Listener]) -> Listener:
    """Call all listeners, and return the first answer that is not None."""

    def first_answer(*arguments: Any) -> Any:
        answers = [_call(listener, None, *arguments) for listener in listeners]
        return next((answer for answer in answers if answer is not None), None)

    return first_answer


def _direct(combine: Combination) -> Combination:
    """Return a combination that is the listener itself where there is only one."""

    def combine_several(listeners: Sequence[Listener]) -> Listener:
        if len(listeners) == 1:
            return listeners[0]
        return combine(listeners)

    return combine_several


def _handlings(listeners: Sequence[Listener]) -> Listener:
    only = listeners[0]
    if len(listeners) == 1 and getattr(getattr(only, "__self__", None), "never_raises", False):
        return only

    def handling(*arguments: Any) -> _Handlings | None:
        handlings = [_call(listener, None, *arguments) for listener in listeners]
        return _Handlings([handling for handling in handlings if handling is not None])

    return handling


class _Handlings:
    """What several observers keep during the run of one handler."""

    __slots__ = ("_handlings",)

    def __init__(self, handlings: Sequence[Handling]) -> None:
        self._handlings = handlings

    def detach(self) -> None:
        for handling in reversed(self._handlings):
            _call(handling.detach, None)

    def end(self, error: BaseException | None) -> None:
        for handling in self._handlings:
            _call(handling.end, None, error)


def _call(listener: Listener, otherwise: Any, *arguments: Any) -> Any:
    try:
        return listener(*arguments)
    except Exception:
        name = getattr(listener, "__qualname__", listener)
        log.exception("the observer %s failed; the event is lost to it", name)
        return otherwise


_COMBINATIONS: dict[str, Combination] = {
    "submitting": _call_in_turn,
    "sending": _call_in_turn,
    "delivered": _call_in_turn,
    "handling": _handlings,
    "received": _direct(_first_answer),
    "ended": _first_answer,
    "frames_sent": _direct(_call_all),
}
