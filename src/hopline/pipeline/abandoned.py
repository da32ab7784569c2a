"""What a killed driver leaves beside the rows of a table, removed by the next run through Hadoop's file systems.

Spark writes the files of a dynamic overwrite below `.spark-staging-<job>` in the folder of the table, in partitions as
in the table, and removes it when the job ends, well or not. A driver that is killed removes nothing. The name does not
say whose it is, and another run over other days may be at work in the same table. So the days decide: those that this
run replaces are its own, and what is staged of them alone is abandoned. What is staged of other days, or has no files
yet, stays until it is a week old.

Where Spark is behind Connect, there is no access to file systems, and everything stays. Readers ignore such folders.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from hopline.pipeline.days import FOLDER, NO_DAY, Day
from hopline.pipeline.spark_work import is_classic

STAGING = ".spark-staging-"
UNCOMMITTED = "_temporary"
ABANDONED_AFTER_S = 7 * 24 * 60 * 60
_PARTITION = re.compile(rf"/({FOLDER}[^/]+)/")


def partition_of(day: Day) -> str:
    """Return the name of the folder that has a day's rows."""
    name = NO_DAY if day is None else day
    return f"{FOLDER}{name}"


def remove_abandoned(spark: SparkSession, table: str, days: Sequence[Day]) -> None:
    """Remove what killed runs over some days have left in the folder of a table.

    Args:
        spark: The session.
        table: The folder, on any storage that Spark knows.
        days: The days that are about to be replaced.
    """
    if not is_classic(spark):
        return
    jvm: Any = spark._jvm
    java_path = jvm.org.apache.hadoop.fs.Path
    folder = java_path(table)
    state = spark._jsparkSession.sessionState()
    files = folder.getFileSystem(state.newHadoopConf())
    if not files.exists(folder):
        return
    own = {partition_of(day) for day in days}
    oldest_s = time.time() - ABANDONED_AFTER_S
    for entry in files.listStatus(folder):
        path = entry.getPath()
        name = path.getName()
        if name in own:
            uncommitted = java_path(path, UNCOMMITTED)  # of a day that was being emptied
            files.delete(uncommitted, True)
        elif name.startswith(STAGING):
            staged = set(_partitions_in(files, path))
            is_own = staged and staged <= own
            is_old = entry.getModificationTime() < oldest_s * 1000
            if is_own or is_old:
                files.delete(path, True)


def _partitions_in(files: Any, folder: Any) -> Iterator[str]:
    """Return the partitions of the files below a folder."""
    entries = files.listFiles(folder, True)
    while entries.hasNext():
        path = entries.next().getPath()
        yield from _PARTITION.findall(path.toString())
