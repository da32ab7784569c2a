"""What a run of the pipeline is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from hopline.message import LocalError
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
    """What to read, what to make of it, where to put it, and where Spark runs. Wrong ones raise `LocalError`."""

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
        if not self.captures:
            raise LocalError("captures", "at least one file, folder or pattern", "none")
        out = str(self.out)
        if bool(out) is bool(self.table_prefix):
            raise LocalError("out", "either a folder or a table prefix", "both" if out else "neither")
        if out and self.format not in PATH_FORMATS:
            raise LocalError(
                "format", f"{', '.join(PATH_FORMATS)} in a folder (others need a table prefix)", self.format
            )
        if not re.fullmatch(r"\w+", self.format):
            raise LocalError("format", "the name of a format of Spark's, such as parquet", self.format)
        if self.table_prefix and not re.fullmatch(r"[\w-]+(\.[\w-]+)*", self.table_prefix):
            raise LocalError("table prefix", "names with dots between, such as lake.traffic", self.table_prefix)
        for place in self.captures:
            if out and f"{_normal(out)}/".startswith(f"{_normal(place)}/"):
                raise LocalError("out", f"a folder that is not in the captures ({place})", out)
        if self.first_day and self.last_day and self.first_day > self.last_day:
            raise LocalError("days", "the first not after the last", f"{self.first_day} to {self.last_day}")
        if not 1 <= self.window_s <= _DAY_S or _DAY_S % self.window_s:
            raise LocalError("window", "seconds that divide a day, from 1 to 86400", self.window_s)
        if unknown := [name for name in self.tables if name not in TABLE_NAMES]:
            raise LocalError("tables", f"some of {', '.join(TABLE_NAMES)}", ", ".join(unknown))
        if not self.tables:
            raise LocalError("tables", f"some of {', '.join(TABLE_NAMES)}", "none")
        if self.master and self.remote:
            raise LocalError("master", "none beside remote", self.master)
        if not re.fullmatch(r"\d+[kmgtKMGT]?[bB]?", self.memory):
            raise LocalError("memory", "a size such as 512m or 6g", self.memory)

    @property
    def days(self) -> Days:
        """Return the days that it is about."""
        return Days(self.first_day, self.last_day)

    def without_secrets(self) -> dict[str, object]:
        """Return what may be written down."""
        return {
            "captures": list(self.captures),
            "out": str(self.out),
            "format": self.format,
            "table_prefix": self.table_prefix,
            "from": self.first_day,
            "to": self.last_day,
            "keys": None if self.keys is None else str(self.keys),
            "window_s": self.window_s,
            "tables": list(self.tables),
            "with_bodies": self.with_bodies,
            "skip_bad_files": self.skip_bad_files,
            "master": self.master,
            "remote": None if self.remote is None else self.remote.split(";")[0],  # behind it stands who we are
            "memory": self.memory,
            "conf": {name: "…" if _SECRET.search(name) else value for name, value in self.conf.items()},
        }


def _normal(place: str) -> str:
    """Return a path such that places inside it begin with it."""
    return place.rstrip("/") if "://" in place else str(Path(place).resolve())
