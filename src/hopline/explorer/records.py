"""The frames of records, read from the captures that the tables were made of, where these can be reached."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from hopline.message import HoplineError, printable


class FramesError(HoplineError):
    """The frames of a record cannot be read: why."""


class RecordedFrames:
    """Reads single records of captures.

    The name of the segment comes from a table, so it may be anything: nothing outside the folder is ever opened.
    """

    def __init__(self, captures: Path | None) -> None:
        self._captures = None if captures is None else captures.resolve()

    def read(self, segment: str | None, node: str | None, seq: int | None) -> list[bytes]:
        """Return the frames of one record.

        Raises:
            FramesError: There is no such record, or it cannot be reached.

        """
        if self._captures is None:
            raise FramesError("the captures are not at hand: start the explorer with --captures FOLDER to see frames")
        if not segment or seq is None:
            raise FramesError("the table does not say which record of which segment this is")
        path = self._path(segment)
        try:
            # Opened as one file, whatever its name looks like.
            dataset = ds.dataset([str(path)], format="parquet", filesystem=pafs.LocalFileSystem())
            wanted = (pc.field("seq") == seq) & (pc.field("node") == node)
            rows: list[dict[str, Any]] = dataset.to_table(columns=["frames"], filter=wanted).slice(0, 2).to_pylist()
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise FramesError(f"{printable(segment)}: cannot be read: {printable(reason)}") from None
        if not rows:
            raise FramesError(f"{printable(segment)}: no record {seq} of node {printable(str(node))} in it")
        frames = rows[0]["frames"]
        if not isinstance(frames, list) or not all(isinstance(frame, bytes) for frame in frames):
            raise FramesError(f"{printable(segment)}: the frames of record {seq} are no frames")
        return frames

    def _path(self, segment: str) -> Path:
        captures = self._captures
        relative = PurePosixPath(segment)
        if captures is None or relative.is_absolute() or ".." in relative.parts or "\0" in segment:
            raise FramesError(f"{printable(segment)}: no segment of these captures")
        path = (captures / relative).resolve()
        if not path.is_relative_to(captures):  # a link may lead anywhere
            raise FramesError(f"{printable(segment)}: outside the captures")
        if not path.is_file():
            raise FramesError(f"{printable(segment)}: no such segment in the captures; is --captures the right folder?")
        return path
