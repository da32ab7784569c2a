"""The frames of records, read from the captures that the tables were made of, where these can be reached."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from hopline.message import HoplineError, printable
from hopline.query.files import local_folder, open_filesystem, storage_failure


class FramesError(HoplineError):
    """The frames of a record cannot be read: why."""


class RecordedFrames:
    """Reads single records of captures, which are in a folder or at a URI that fsspec reaches.

    The name of the segment comes from a table, so it may be anything: nothing outside the folder is ever opened.
    """

    def __init__(self, captures: str | Path | None) -> None:
        self._location = str(captures)
        self._folder = None if captures is None else local_folder(captures)
        self._filesystem: Any = None
        self._root = ""
        if captures is not None and self._folder is None:
            self._filesystem, self._root = open_filesystem(str(captures))

    def are_there(self) -> bool:
        """Return whether there is such a folder.

        Raises:
            StorageError: The storage does not answer.

        """
        if self._filesystem is None:
            return self._folder is not None and self._folder.is_dir()
        try:
            return self._kind(self._root) == "directory"
        except Exception as error:
            raise storage_failure(self._location, error) from error

    def read(self, segment: str | None, node: str | None, seq: int | None) -> list[bytes]:
        """Return the frames of one record.

        Raises:
            FramesError: There is no such record, or it cannot be reached.

        """
        if self._folder is None and self._filesystem is None:
            raise FramesError("the captures are not at hand: start the explorer with --captures CAPTURES to see frames")
        if not segment or seq is None:
            raise FramesError("the table has no segment and number for this record")
        relative = PurePosixPath(segment)
        if relative.is_absolute() or ".." in relative.parts or "\0" in segment:
            raise FramesError(f"{printable(segment)}: no segment of these captures")
        try:
            filesystem, path = self._find(relative)
            # Opened as one file, whatever its name looks like.
            dataset = ds.dataset([path], format="parquet", filesystem=filesystem)
            wanted = (pc.field("seq") == seq) & (pc.field("node") == node)
            rows: list[dict[str, Any]] = dataset.to_table(columns=["frames"], filter=wanted).slice(0, 2).to_pylist()
        except FramesError:
            raise
        except Exception as error:  # a storage has errors of its own
            reason = str(error).partition("\n")[0]
            raise FramesError(f"{printable(segment)}: cannot be read: {printable(reason)}") from None
        if not rows:
            raise FramesError(f"{printable(segment)}: no record {seq} of node {printable(str(node))} in it")
        frames = rows[0]["frames"]
        if not isinstance(frames, list) or not all(isinstance(frame, bytes) for frame in frames):
            raise FramesError(f"{printable(segment)}: the frames of record {seq} are no frames")
        return frames

    def _find(self, segment: PurePosixPath) -> tuple[Any, str]:
        """Return the filesystem of a segment, and its path there."""
        if self._folder is None:
            filesystem, path = self._filesystem, f"{self._root.rstrip('/')}/{segment}"
            is_file = self._kind(path) == "file"
        else:
            folder = self._folder.resolve()
            file = (folder / segment).resolve()
            if not file.is_relative_to(folder):  # a link may lead anywhere
                raise FramesError(f"{printable(str(segment))}: outside the captures")
            filesystem, path, is_file = pafs.LocalFileSystem(), str(file), file.is_file()
        if not is_file:
            raise FramesError(
                f"{printable(str(segment))}: no such segment in the captures; is --captures the right folder?"
            )
        return filesystem, path

    def _kind(self, path: str) -> str | None:
        """Return whether a path elsewhere is a file or a directory. `isfile` takes a storage that fails for a no."""
        try:
            kind: str = self._filesystem.info(path)["type"]
        except FileNotFoundError:
            return None
        return kind
