"""What is wrong with a configuration: where it was said, which key, what was expected and found."""

from __future__ import annotations

from hopline.message import HoplineError


class ConfigurationError(HoplineError):
    """One value that cannot be used. `origin` is the file, the variable or the option that said it."""

    def __init__(self, origin: str, key: str, problem: str) -> None:
        super().__init__(origin, key, problem)
        self.origin = origin
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        return ": ".join(part for part in (self.origin, self.key, self.problem) if part)


def shown(value: object) -> str:
    """Write a value as messages show it."""
    if value is None:
        return "nothing"
    text = ("false", "true")[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
