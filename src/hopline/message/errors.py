"""Errors that know nothing of the wire: Hopline was used wrongly, a payload is not its kind, or nobody answered."""

from __future__ import annotations


class HoplineError(Exception):
    """Base of every error that Hopline raises on purpose."""


class LocalError(HoplineError):
    """We were asked to do something that makes no sense: the caller's mistake, never a peer's."""

    def __init__(self, field: str, expected: str, found: object) -> None:
        super().__init__(field, expected, found)
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        try:
            shown = repr(self.found)
        except ValueError:  # an integer that is too long for Python to print
            shown = f"a huge {type(self.found).__name__}"
        return f"{self.field}: expected {self.expected}, found {shown if len(shown) <= 80 else shown[:77] + '...'}"


class PayloadError(HoplineError):
    """The body of a message is not what its kind says: a peer wrote it otherwise."""

    def __init__(self, kind: type, problem: str, body: bytes) -> None:
        super().__init__(kind, problem, body)
        self.kind = kind
        self.problem = problem
        self.body = body

    def __str__(self) -> str:
        return f"not a {self.kind.__name__}: {self.problem} ({len(self.body)} bytes {self.body[:24].hex()})"


class ActorError(HoplineError):
    """The handler of a message failed; this is what its actor said. The stack is there only if its node tells it."""

    def __init__(self, type_name: str, text: str, stack: str = "") -> None:
        super().__init__(type_name, text, stack)
        self.type_name = type_name
        self.text = text
        self.stack = stack

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}" if self.text else self.type_name


class DeliveryError(HoplineError):
    """A message did not reach its receiver: `outcome` is how it ended, such as ``"unroutable"`` or ``"expired"``."""

    REPORTED_AS = "hopline.DeliveryError."  # and the outcome: its type in the exception message that reports it

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(outcome, text)
        self.outcome = outcome
        self.text = text

    def __str__(self) -> str:
        return f"{self.outcome}: {self.text}"


class AnswerTimeoutError(HoplineError, TimeoutError):
    """No answer came in time."""

    def __init__(self, asked: str, seconds: float) -> None:
        super().__init__(asked, seconds)
        self.asked = asked
        self.seconds = seconds

    def __str__(self) -> str:
        if not self.seconds:
            return f"no time was left to wait for an answer to {self.asked}"
        return f"no answer to {self.asked} within {self.seconds:g} s"


class NoRoomError(HoplineError):
    """A bounded queue is full, and we were asked not to wait."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no room for {self.what}: its receiver is full"


class NotRunningError(HoplineError):
    """A node was used before it started or after it stopped."""


class PeerGoneError(HoplineError):
    """Another node cannot be reached."""
