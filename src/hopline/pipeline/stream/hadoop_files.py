"""Files and folders of any storage that Spark knows, through Hadoop's interface: what Spark itself moves files by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession


class HadoopFiles:
    """The files below a folder. Paths are relative to it, with slashes.

    Args:
        spark: The session, whose driver is in this process.
        root: The folder, on any storage that Spark knows.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._read = jvm.org.apache.commons.io.IOUtils
        self._root = root.rstrip("/")
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files: Any = self._path(self._root).getFileSystem(configuration)

    def full(self, path: str) -> str:
        """Return a path as Spark takes it."""
        return f"{self._root}/{path}"

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        return bool(self._files.exists(self._java(path)))

    def names(self, folder: str) -> list[str]:
        """Return the names of what is in a folder, in order; nothing where there is no such folder."""
        if not self.exists(folder):
            return []
        return sorted(entry.getPath().getName() for entry in self._files.listStatus(self._java(folder)))

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        self._files.delete(self._java(path), True)

    def replace(self, path: str, by: str) -> None:
        """Delete what is at a path, if anything, and move another file or folder there."""
        self.delete(path)
        target = self._java(path)
        self._files.mkdirs(target.getParent())
        if not self._files.rename(self._java(by), target):
            raise OSError(f"{self.full(by)} could not be moved to {self.full(path)}")

    def read_text(self, path: str) -> str:
        """Return the text of a file."""
        stream = self._files.open(self._java(path))
        try:
            return str(self._read.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a file; nobody sees it before it is whole."""
        folder, _, name = path.rpartition("/")
        aside = f"{folder}/.{name}"
        stream = self._files.create(self._java(aside), True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()
        self.replace(path, aside)

    def _java(self, path: str) -> Any:
        return self._path(self.full(path))


def existing(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Return those of some files that exist, wherever each of them is."""
    jvm: Any = spark._jvm
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    java_paths = {path: jvm.org.apache.hadoop.fs.Path(path) for path in paths}
    return [path for path, java_path in java_paths.items() if java_path.getFileSystem(configuration).exists(java_path)]
