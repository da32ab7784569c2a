"""What a run of the pipeline is told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from hopline.message import ArgumentError
from hopline.pipeline.days import Days
from hopline.pipeline.tables.all import TABLES

TABLE_NAMES = tuple(TABLES)
# Those that replace some days of a table in a folder. Others, such as iceberg, would replace the whole table.
PATH_FORMATS = ("parquet", "orc", "delta")
DEFAULT_WINDOW_S = 60
DEFAULT_MEMORY = "2g"
_DAY_S = 24 * 60 * 60
# What Spark itself does not show, and the settings of storages that hold a key (Azure's accounts, Google's services).
_SECRET = re.compile(r"secret|password|token|(access|account|private)[.]?key|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What to read, what to make of it, where to put it, and where Spark runs. Wrong ones raise `ArgumentError`."""

    captures: tuple[str, ...]  # files, folders or patterns
    out: str | Path = ""  # a folder on any storage that Spark knows
    first_day: date | None = None
    last_day: date | None = None
    keys: Path | None = None
    window_s: int = DEFAULT_WINDOW_S
    format: str = "parquet"
    table_prefix: str | None = None  # write tables of a catalogue, as in lake.hopline, instead of folders in `out`
    tables: tuple[str, ...] = TABLE_NAMES
    with_bodies: bool = False  # keep the body frames in messages
    skip_bad_files: bool = False
    master: str | None = None
    remote: str | None = None
    memory: str = DEFAULT_MEMORY
    conf: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False

    def __post_init__(self) -> None:
        self._check_places()
        self._check_choices()

    def _check_places(self) -> None:
        """Raise `ArgumentError` unless it is clear what is read, and where and how tables are written."""
        if not self.captures:
            raise ArgumentError("captures", "at least one file, folder or pattern", "none")
        out = str(self.out)
        if bool(out) is bool(self.table_prefix):
            found = "both" if out else "neither"
            raise ArgumentError("out", "a folder (--out) or a catalogue (--table-prefix)", found)
        if out and self.format not in PATH_FORMATS:
            formats = ", ".join(PATH_FORMATS)
            raise ArgumentError("format", f"{formats} in a folder (others need a table prefix)", self.format)
        if not re.fullmatch(r"\w+", self.format):
            raise ArgumentError("format", "the name of a format of Spark's, such as parquet", self.format)
        if self.table_prefix and not re.fullmatch(r"[\w-]+(\.[\w-]+)*", self.table_prefix):
            raise ArgumentError("table prefix", "names with dots between, such as lake.traffic", self.table_prefix)
        check_out(out, self.captures)

    def _check_choices(self) -> None:
        """Raise `ArgumentError` unless days, window, tables and the settings of Spark make sense."""
        if self.first_day and self.last_day and self.first_day > self.last_day:
            found = f"{self.first_day} to {self.last_day}"
            raise ArgumentError("days", "the first not after the last", found)
        check_window(self.window_s)
        unknown = [name for name in self.tables if name not in TABLE_NAMES]
        if unknown or not self.tables:
            known = ", ".join(TABLE_NAMES)
            found = ", ".join(unknown) or "none"
            raise ArgumentError("tables", f"some of {known}", found)
        if self.master and self.remote:
            raise ArgumentError("master", "none beside remote", self.master)
        check_memory(self.memory)

    @property
    def days(self) -> Days:
        """Return the days that the run is about."""
        return Days(self.first_day, self.last_day)

    def without_secrets(self) -> dict[str, object]:
        """Return the options as they may be written down: without passwords, keys and who is connected to Spark."""
        keys = None if self.keys is None else str(self.keys)
        server = None if self.remote is None else self.remote.split(";")[0]  # behind it stands who we are
        conf = {}
        for name, value in self.conf.items():
            is_secret = _SECRET.search(name)
            conf[name] = "…" if is_secret else value
        return {
            "captures": list(self.captures),
            "out": str(self.out),
            "format": self.format,
            "table_prefix": self.table_prefix,
            "from": self.first_day,
            "to": self.last_day,
            "keys": keys,
            "window_s": self.window_s,
            "tables": list(self.tables),
            "with_bodies": self.with_bodies,
            "skip_bad_files": self.skip_bad_files,
            "master": self.master,
            "remote": server,
            "memory": self.memory,
            "conf": conf,
        }


def check_out(out: str, captures: Iterable[str]) -> None:
    """Raise `ArgumentError` if tables would be written into captures."""
    for place in captures:
        if out and is_within(out, place):
            raise ArgumentError("out", f"a folder that is not in the captures ({place})", out)


def check_window(window_s: int) -> None:
    """Raise `ArgumentError` unless windows of this length divide a day."""
    divides_a_day = 1 <= window_s <= _DAY_S and _DAY_S % window_s == 0
    if not divides_a_day:
        raise ArgumentError("window", "seconds that divide a day, from 1 to 86400", window_s)


def check_memory(memory: str) -> None:
    """Raise `ArgumentError` unless Java understands this size of memory."""
    if not re.fullmatch(r"\d+[kmgtKMGT]?[bB]?", memory):
        raise ArgumentError("memory", "a size such as 512m or 6g", memory)


def is_within(place: str, folder: str) -> bool:
    """Return whether a place is a folder, or lies in it."""
    return f"{_normal(place)}/".startswith(f"{_normal(folder)}/")


def _normal(place: str) -> str:
    """Return the one way to write a place: a URI without a slash at its end, a path in full."""
    if "://" in place:
        return place.rstrip("/")
    return str(Path(place).resolve())
