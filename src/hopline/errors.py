"""The errors that Hopline raises.

Catch `HoplineError` to catch all of them. An error that has an equivalent in Python is also an instance of that one,
so that code which knows nothing of Hopline handles it too::

    HoplineError
    ├── ArgumentError (ValueError)          an argument or a setting has a value that cannot be used
    │   ├── ArgumentTypeError (TypeError)   it has the wrong type
    │   ├── SchemaConflictError             two payload classes of one name have different schemas
    │   └── LocalError                      a message cannot be written in the wire format it should be sent in
    ├── RemoteError                         a peer sent bytes that are no valid message     (hopline.wire)
    ├── SecurityError                       a message was refused: signature, domain, replay (hopline.security)
    ├── KeyFileError                        a key file cannot be used                       (hopline.security)
    ├── PayloadError                        the body of a message does not fit its payload class
    ├── ActorError                          the handler of a request raised an exception
    ├── DeliveryError                       a message did not reach its receiver
    ├── AnswerTimeoutError (TimeoutError)   a request was not answered in time
    ├── NoRoomError                         a bounded queue is full
    ├── NotRunningError                     a node was used before its start or after its stop
    ├── StartError                          the on_start of an actor failed
    ├── NotJoinedError                      no rendezvous server answers
    ├── PeerGoneError                       another node cannot be reached
    ├── BindError (OSError)                 a server socket cannot be bound
    └── MissingExtraError (ImportError)     an optional dependency is not installed

`LocalError` and `RemoteError` are for the wire what h11's `LocalProtocolError` and `RemoteProtocolError` are: the first
is a mistake of this process, the second one of the peer. `RemoteError`, `SecurityError` and `KeyFileError` are defined
beside the reason codes that they carry. The tools (command line, pipeline, queries, explorer) derive errors of their
own from `HoplineError`.

Errors carry what a program needs as attributes; `str()` of an error names the thing, the problem and the remedy.
"""

from __future__ import annotations

_MAX_SHOWN = 80  # characters of a value in the text of an error


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class HoplineError(Exception):
    """Base class of all errors that Hopline raises on purpose."""


class ArgumentError(HoplineError, ValueError):
    """An argument or a setting has a value that cannot be used.

    Attributes:
        field: The name of the argument or setting.
        expected: What would have been accepted, in words.
        found: The value that was given.
    """

    def __init__(self, field: str, expected: str, found: object) -> None:
        super().__init__(field, expected, found)
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        try:
            shown = repr(self.found)
        except ValueError:  # an integer with more digits than Python converts to text
            shown = f"a huge {type(self.found).__name__}"
        if len(shown) > _MAX_SHOWN:
            shown = shown[: _MAX_SHOWN - 3] + "..."
        return f"{self.field}: expected {self.expected}, found {shown}"


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a type that cannot be used."""


class SchemaConflictError(ArgumentError):
    """Two payload classes of one name and version, used on one node, have different schemas.

    Attributes:
        kind: The name and version of the message.
        first: One class.
        second: The other class.
        differences: What differs, in words.
    """

    def __init__(self, kind: str, first: type, second: type, differences: list[str]) -> None:
        super().__init__(f"payload {kind}", "one schema", f"{_full_name(first)} and {_full_name(second)}")
        self.args = (kind, first, second, differences)
        self.kind = kind
        self.first = first
        self.second = second
        self.differences = differences

    def __str__(self) -> str:
        classes = f"{_full_name(self.first)} and {_full_name(self.second)}"
        remedy = "Use one class, or give one of them another name or version with @payload"
        return f"{self.field}: {classes} have different schemas: {'; '.join(self.differences)}. {remedy}"


class LocalError(ArgumentError):
    """A message cannot be written: this process asked for something that the wire format cannot express."""


class PayloadError(HoplineError):
    """The body of a message cannot be read as its payload class: the sender wrote something else.

    Attributes:
        kind: The payload class.
        problem: What the serializer reports.
        body: The bytes that were received.
    """

    def __init__(self, kind: type, problem: str, body: bytes) -> None:
        super().__init__(kind, problem, body)
        self.kind = kind
        self.problem = problem
        self.body = body

    def __str__(self) -> str:
        return f"not a valid {self.kind.__name__}: {self.problem} ({len(self.body)} bytes {self.body[:24].hex()})"


class ActorError(HoplineError):
    """The handler of a request raised an exception, which its node sent back.

    Attributes:
        type_name: The qualified name of the exception's class.
        text: The exception's text.
        stack: The traceback; empty unless that node sends tracebacks (`NodeSettings.include_tracebacks`).
    """

    def __init__(self, type_name: str, text: str, stack: str = "") -> None:
        super().__init__(type_name, text, stack)
        self.type_name = type_name
        self.text = text
        self.stack = stack

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}" if self.text else self.type_name


class DeliveryError(HoplineError):
    """A message did not reach its receiver.

    Attributes:
        outcome: The final outcome of the message, such as ``"unroutable"`` or ``"expired"``.
        text: Details.
    """

    REPORTED_AS = "hopline.DeliveryError."
    """What the type name begins with in an exception message that reports it; the outcome follows."""

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(outcome, text)
        self.outcome = outcome
        self.text = text

    def __str__(self) -> str:
        return f"{self.outcome}: {self.text}"


class AnswerTimeoutError(HoplineError, TimeoutError):
    """A request was not answered in time.

    Attributes:
        asked: The identifier of the request's message.
        seconds: How long the caller waited; 0 if the deadline had passed before the request was sent.
    """

    def __init__(self, asked: str, seconds: float) -> None:
        super().__init__(asked, seconds)
        self.asked = asked
        self.seconds = seconds

    def __str__(self) -> str:
        if not self.seconds:
            return f"no time was left to wait for an answer to {self.asked}"
        return f"no answer to {self.asked} within {self.seconds:g} s"


class NoRoomError(HoplineError):
    """A bounded queue is full, and the caller asked not to wait."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no room for {self.what}: its receiver is full"


class NotRunningError(HoplineError):
    """A node was used before it was started or after it was stopped."""


class StartError(HoplineError):
    """The `on_start` of an actor failed, so that its node does not start.

    Attributes:
        actor: The name of the actor's class.
        error: What `on_start` raised; also the `__cause__`.
    """

    def __init__(self, actor: str, error: BaseException) -> None:
        super().__init__(actor, error)
        self.actor = actor
        self.error = error

    def __str__(self) -> str:
        return f"on_start of {self.actor} failed: {type(self.error).__name__}: {self.error}"


class NotJoinedError(HoplineError):
    """No rendezvous server answers."""


class PeerGoneError(HoplineError):
    """Another node cannot be reached."""


class BindError(HoplineError, OSError):
    """A server socket cannot be bound.

    Attributes:
        field: The setting that holds the address.
        address: The address, or the range of ports of which none could be bound.
        problem: What the operating system reports.
        errno: The error number of the operating system, if there is one.
    """

    def __init__(self, field: str, address: str, problem: str, errno: int | None = None) -> None:
        super().__init__(errno, problem)
        self.args = (field, address, problem, errno)
        self.field = field
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field}: cannot bind to {self.address} ({self.problem}); choose a free port, or 0 for any"


class MissingExtraError(HoplineError, ImportError):
    """An optional dependency is not installed.

    Attributes:
        feature: What needs it.
        package: The name of the missing package.
        extra: The extra of Hopline that installs it.
    """

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(feature, package, extra, name=package)
        self.feature = feature
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.feature} needs {self.package}: pip install 'hopline[{self.extra}]'"
