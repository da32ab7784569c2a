"""Tables of generated traffic with planted faults, made once for all workers of a test run."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hopline.generator import Options, generate
from hopline.generator.catalogue import DEFAULT_RATES
from tests.cli.commands import environment
from tests.spark_settings import FEW_ROWS

RECORDS = 6_000
SECONDS = 800
# So many that each is there: by themselves they are rare.
RATES = DEFAULT_RATES | dict.fromkeys(("lost", "forged", "expired", "unanswered", "exception", "malformed"), 0.02)


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated captures, the tables of them, and what was planted."""

    folder: Path

    @property
    def tables(self) -> Path:
        return self.folder / "tables"

    @property
    def captures(self) -> Path:
        return self.folder / "made" / "captures"

    def planted(self, fault: str) -> list[dict[str, Any]]:
        """Return the faults of a class that were planted in a flow."""
        rows: list[dict[str, Any]] = pq.read_table(self.folder / "made" / "truth" / "faults.parquet").to_pylist()
        return [row for row in rows if row["class"] == fault and row["flow_id"]]


def make_generated(folder: Path) -> Generated:
    """Make it, or wait until another worker has made it."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _make(folder)
            done.touch()
    return Generated(folder)


def _make(folder: Path) -> None:
    made = folder / "made"
    generate(made, Options(messages=RECORDS, seed=7, rate=20, rates=RATES))
    settings = [part for name, value in FEW_ROWS.items() for part in ("--conf", f"{name}={value}")]
    subprocess.run(
        [
            *(sys.executable, "-m", "hopline", "pipeline", "run", str(made / "captures")),
            *("--out", str(folder / "tables"), "--keys", str(made / "keys" / "hopline.toml")),
            *("--with-bodies", "--master", "local[2]", "--memory", "1g", *settings),
        ],
        env=environment(),
        check=True,
        capture_output=True,
        timeout=SECONDS,
    )
