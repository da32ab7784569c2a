"""The folder of the tables: built aside under a lock, and put in place whole, a table at a time.

While a run works, what it makes lies under ``_building-<id>``; the tables that people read are the old ones. When
all are made, each takes the place of its old self in one step where the file system can do that, else in two. What a
run that died has left is found and settled by the next one.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hopline.message import get_logger
from hopline.pipeline.days import Days
from hopline.pipeline.failures import BusyError, PipelineError
from hopline.pipeline.folders import day_of, partitions

BUILDING = "_building-"
REPLACED = "_replaced"
LOCK = "_lock"
RUN = "run.json"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Building:
    """A place where a run makes its tables, and from which it publishes them."""

    out: Path
    folder: Path

    def place(self, name: str) -> Path:
        """Tell where a table, or a step before one, is made."""
        return self.folder / name

    def publish(self, table: str, days: Days) -> None:
        """Put a table that was made in the place of the old one; of other days the old rows stay."""
        made, target = self.place(table), self.out / table
        made.mkdir(exist_ok=True)
        _keep_days(made, days)
        if target.exists():
            if not days.is_all:
                _link_other_days(target, made, days)
            _exchange(made, target, self.folder / REPLACED / table)
        else:
            made.rename(target)


@contextmanager
def building(out: Path) -> Iterator[Building]:
    """Make a place to build in, for as long as nobody else may; it is gone afterwards, whatever happens."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise PipelineError(f"{out} is a file: the tables need a folder") from None
    with _locked(out):
        settle(out)
        made = Building(out, out / f"{BUILDING}{uuid.uuid4().hex[:8]}")
        (made.folder / REPLACED).mkdir(parents=True)
        try:
            yield made
        finally:
            shutil.rmtree(made.folder, ignore_errors=True)


def settle(out: Path) -> None:
    """Put right what runs that died have left: a table that was taken away and not replaced comes back."""
    for left in sorted(out.glob(f"{BUILDING}*")):
        for old in (left / REPLACED).glob("*"):
            if not (out / old.name).exists():
                _log.warning("%s: a run died while it replaced %s; the old table is back", out, old.name)
                old.rename(out / old.name)
        shutil.rmtree(left)


def write_run(out: Path, document: dict[str, object]) -> None:
    """Write down what a run did, at once."""
    new = out / f"_{RUN}"
    new.write_text(json.dumps(document, indent=2, default=str) + "\n", encoding="utf-8")
    new.replace(out / RUN)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Hold the lock of a folder. The system lets go of it when its process dies, however it does."""
    with (out / LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise BusyError(f"{out}: another run writes these tables ({lock.read().strip() or 'unknown'})") from None
        except OSError as problem:
            _log.warning("%s: cannot be locked (%s): let no other run write there", out, problem)
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {os.uname().nodename}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


# -- days --------------------------------------------------------------------------------------------------------------


def add_rows(more: Path, table: Path) -> None:
    """Move the files of one table into another, day by day."""
    table.mkdir(exist_ok=True)
    for folder in partitions(more):
        (table / folder.name).mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.rename(table / folder.name / file.name)


def _keep_days(table: Path, days: Days) -> None:
    for folder in partitions(table):
        if day_of(folder) not in days:
            shutil.rmtree(folder)


def _link_other_days(old: Path, new: Path, days: Days) -> None:
    """Give a new table the old one's rows of the days that it is not about: as links, which cost nothing."""
    for folder in partitions(old):
        if day_of(folder) in days:
            continue
        shutil.rmtree(new / folder.name, ignore_errors=True)
        shutil.copytree(folder, new / folder.name, copy_function=_link)


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # not on every file system
        shutil.copy2(source, target)
    return target


# -- in the place of the old one ---------------------------------------------------------------------------------------

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def _exchange(new: Path, target: Path, aside: Path) -> None:
    """Put a folder in the place of another, which goes aside."""
    if _exchange_at_once(new, target):
        new.rename(aside)
        return
    target.rename(aside)  # if the run dies here, the next one finds it there and puts it back
    new.rename(target)


def _exchange_at_once(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    if (code := ctypes.get_errno()) in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))
