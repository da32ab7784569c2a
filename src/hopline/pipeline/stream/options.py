"""What a stream is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hopline.checks import Range, require, require_number
from hopline.pipeline.options import DEFAULT_MEMORY, DEFAULT_WINDOW_S, check_memory, check_out, check_window

DEFAULT_TRIGGER_S = 10.0
DEFAULT_GAP_S = 10.0
DEFAULT_IDLE_S = 60.0


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What to follow, where to put the tables, and how long to wait for what. Wrong options raise `ArgumentError`."""

    captures: tuple[str, ...]  # folders or patterns
    out: str | Path
    keys: Path | None = None
    window_s: int = DEFAULT_WINDOW_S
    with_bodies: bool = False  # keep the body frames in messages
    trigger_s: float = DEFAULT_TRIGGER_S  # the time from the begin of one batch to that of the next
    gap_s: float = DEFAULT_GAP_S  # the longest pause inside a flow
    idle_s: float = DEFAULT_IDLE_S  # a node without new segments for so long is not waited for
    max_files: int | None = None  # segments in a batch
    available_now: bool = False  # read what is there, and end
    is_final: bool = False  # in the end, close all flows and settle all days: nothing more will come
    skip_bad_files: bool = False
    master: str | None = None
    memory: str = DEFAULT_MEMORY
    conf: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False

    def __post_init__(self) -> None:
        require(bool(self.captures), "captures", "at least one folder or pattern", "none")
        require(bool(str(self.out)), "out", "a folder (--out)", "none")
        check_out(str(self.out), self.captures)
        check_window(self.window_s)
        check_memory(self.memory)
        for name in ("trigger_s", "gap_s", "idle_s"):
            require_number(name.removesuffix("_s"), getattr(self, name), Range(0, excludes_least=True))
        if self.max_files is not None:
            require_number("max files", self.max_files, Range(1))

    @property
    def remote(self) -> None:
        """Return None: a stream has its driver in this process."""
        return
