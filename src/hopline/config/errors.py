"""Errors of a configuration: where the value comes from, its key, what was expected and what was found."""

from __future__ import annotations

from hopline.message import HoplineError

_LONGEST = 80  # characters of a value in a message


class ConfigurationError(HoplineError):
    """A value that cannot be used.

    Attributes:
        origin: The file, the environment variable or the option that the value comes from.
        key: The key, with dots; empty if the origin names it.
        problem: What was expected, and what was found.
    """

    def __init__(self, origin: str, key: str, problem: str) -> None:
        super().__init__(origin, key, problem)
        self.origin = origin
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        parts = (self.origin, self.key, self.problem)
        return ": ".join(part for part in parts if part)


def shown(value: object) -> str:
    """Return a value as error messages show it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    if len(text) <= _LONGEST:
        return text
    start = text[: _LONGEST - 3]
    return f"{start}..."
