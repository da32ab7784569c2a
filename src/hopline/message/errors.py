"""Errors that know nothing of the wire: you used Hopline wrongly, or a peer's payload is not what it should be."""

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
