"""What stops the pipeline before it has read a row, with the way out."""

from __future__ import annotations

from hopline.message import HoplineError


class RequirementError(HoplineError):
    """Something outside Hopline is not there: what it is, and what to do about it."""

    def __init__(self, missing: str, remedy: str) -> None:
        super().__init__(missing, remedy)
        self.missing = missing
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.missing}: {self.remedy}"


class CaptureError(HoplineError):
    """A capture cannot be read: which path, and what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"
