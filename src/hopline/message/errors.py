"""The errors that mean "you used Hopline wrongly"."""

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
