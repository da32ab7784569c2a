"""The frames of records, read from the captures that the tables were made of, where these can be reached."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

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
        name = printable(segment)
        relative = PurePosixPath(segment)
        leads_outside = relative.is_absolute() or ".." in relative.parts
        if leads_outside or "\0" in segment:
            raise FramesError(f"{name}: no segment of these captures")
        try:
            rows = self._rows(relative, node, seq)
        except FramesError:
            raise
        except Exception as error:  # a storage has errors of its own
            reason, _, _ = str(error).partition("\n")
            raise FramesError(f"{name}: cannot be read: {printable(reason)}") from None
        if not rows:
            raise FramesError(f"{name}: no record {seq} of node {printable(str(node))} in it")
        frames = rows[0]["frames"]
        if not _are_frames(frames):
            raise FramesError(f"{name}: the frames of record {seq} are no frames")
        return frames

    def _rows(self, segment: PurePosixPath, node: str | None, seq: int) -> list[Any]:
        """Return the rows of a segment that have a number; more than one if the segment is damaged."""
        filesystem, path = self._find(segment)
        # Opened as one file, whatever its name looks like.
        dataset = ds.dataset([path], format="parquet", filesystem=filesystem)
        has_number = pc.field("seq") == seq
        is_of_node = pc.field("node") == node
        table = dataset.to_table(columns=["frames"], filter=has_number & is_of_node)
        rows: list[Any] = table.slice(0, 2).to_pylist()
        return rows

    def _find(self, segment: PurePosixPath) -> tuple[Any, str]:
        """Return the filesystem of a segment, and its path there."""
        name = printable(str(segment))
        if self._folder is None:
            filesystem = self._filesystem
            root = self._root.rstrip("/")
            path = f"{root}/{segment}"
            is_file = self._kind(path) == "file"
        else:
            folder = self._folder.resolve()
            file = (folder / segment).resolve()
            if not file.is_relative_to(folder):  # a link may lead anywhere
                raise FramesError(f"{name}: outside the captures")
            filesystem = pafs.LocalFileSystem()
            path = str(file)
            is_file = file.is_file()
        if not is_file:
            raise FramesError(f"{name}: no such segment in the captures; is --captures the right folder?")
        return filesystem, path

    def _kind(self, path: str) -> str | None:
        """Return whether a path of the storage is a file or a directory, or None if it does not exist.

        Unlike fsspec's `isfile`, this raises if the storage fails.
        """
        try:
            kind: str = self._filesystem.info(path)["type"]
        except FileNotFoundError:
            return None
        return kind


def _are_frames(value: Any) -> TypeGuard[list[bytes]]:
    return isinstance(value, list) and all(isinstance(frame, bytes) for frame in value)
