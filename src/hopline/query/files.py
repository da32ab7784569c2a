"""The Parquet files of tables in any storage, as a read-only file system for DuckDB.

DuckDB could open local files by itself. It is given a file system of ours instead, for three reasons:

* **Nothing can be written.** A query may come from an untrusted source. Text that begins with ``select`` may still
  write in DuckDB (``with a as (copy … to 'file') select …``, or ``json_execute_serialized_sql``), and its
  settings allow a path for reading and writing alike. So DuckDB has no access to files but ``tables://``,
  which has exactly the files of the tables and opens them for reading only.
* **Threads.** DuckDB positions and reads one Python file from several threads. Most files in Python remember one
  position, so that a read would return bytes from where another thread has gone. Here every thread has its own.
* **Any storage.** What fsspec reaches (``webhdfs://host:9870/…``, ``s3://…``) has its own names, listings and caches.
  Here everything was listed once, and a file is called ``tables://flows/date=2026-01-31/part-0.parquet`` everywhere.

The listing is a snapshot: files that a run replaces afterwards are found when the tables are opened again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

import fsspec

from hopline.pipeline.days import FOLDER, NO_DAY
from hopline.pipeline.failures import RequirementError
from hopline.query.errors import StorageError

SCHEME = "tables"
_HIDDEN = (".", "_")  # what Spark and other writers keep beside the rows, or have not committed yet
# Formats with a log of the files that are current.
_LOGS = {"/_delta_log/": "delta", ".metadata.json": "iceberg"}

ReadRange = Callable[[int, int], bytes]
"""Return the bytes of a file from an offset, at most so many."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with rows of a table; its path begins with the name of the table."""

    path: str
    size: int

    @property
    def uri(self) -> str:
        """Return the name that DuckDB knows it by."""
        return f"{SCHEME}://{self.path}"

    @property
    def day(self) -> date | None:
        """Return the day of its partition, None for that of rows without a day."""
        for part in self.path.split("/"):
            if part.startswith(FOLDER):
                text = part.removeprefix(FOLDER)
                return None if text == NO_DAY else date.fromisoformat(text)
        return None


class Storage(Protocol):
    """A location of tables, one folder each."""

    def folders(self) -> set[str]:
        """Return the names of the folders there. Raise FileNotFoundError if the location does not exist."""

    def files(self, folder: str) -> Iterable[TableFile]:
        """List the files below a folder, hidden ones included."""

    def reader(self, path: str) -> tuple[ReadRange, Callable[[], None]]:
        """Open a file, and return how to read it and how to close it."""


class LocalStorage:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folders(self) -> set[str]:
        """Return the names of the folders in it."""
        return {entry.name for entry in self._folder.iterdir() if entry.is_dir()}

    def files(self, folder: str) -> Iterable[TableFile]:
        """List the files below one of them."""
        root = self._folder / folder
        for path in root.rglob("*"):
            with suppress(FileNotFoundError):  # a run that goes on meanwhile moves its files
                if path.is_file():
                    relative_path = path.relative_to(self._folder)
                    size = path.stat().st_size
                    yield TableFile(relative_path.as_posix(), size)

    def reader(self, path: str) -> tuple[ReadRange, Callable[[], None]]:
        """Open a file."""
        descriptor = os.open(self._folder / path, os.O_RDONLY)

        def read(offset: int, size: int) -> bytes:
            return os.pread(descriptor, size, offset)

        def close() -> None:
            os.close(descriptor)

        return read, close


class RemoteStorage:
    """A folder that fsspec reaches."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        # Only filesystems of asyncio promise that a file may be read by several threads.
        self._guard: AbstractContextManager[Any] = nullcontext()
        self._options: dict[str, str] = {}
        if not filesystem.async_impl:
            self._guard = threading.Lock()
            self._options = {"cache_type": "none"}  # DuckDB asks for what it needs

    def folders(self) -> set[str]:
        """Return the names of the folders in it."""
        entries = self._filesystem.ls(f"{self._root}/", detail=True)
        names: set[str] = set()
        for entry in entries:
            if entry["type"] == "directory":
                path = entry["name"].rstrip("/")
                _, _, name = path.rpartition("/")
                names.add(name)
        return names

    def files(self, folder: str) -> Iterable[TableFile]:
        """List the files below one of them."""
        root = f"{self._root}/{folder}"
        entries = self._filesystem.find(root, detail=True)
        for path, entry in entries.items():
            _, _, relative_path = path.partition(f"{root}/")
            yield TableFile(f"{folder}/{relative_path}", entry["size"])

    def reader(self, path: str) -> tuple[ReadRange, Callable[[], None]]:
        """Return how to read a file: each read is a request of its own."""
        full_path = f"{self._root}/{path}"

        def read(offset: int, size: int) -> bytes:
            end = offset + size
            with self._guard:
                data: bytes = self._filesystem.cat_file(
                    full_path,
                    start=offset,
                    end=end,
                    **self._options,
                )
            return data

        return read, lambda: None


def open_storage(location: str | Path) -> Storage:
    """Open the place of a folder or a URI such as ``webhdfs://host:9870/lake/tables``.

    Raises:
        RequirementError: a package is missing that reads such URIs.
        StorageError: no installed package reads such URIs.

    """
    folder = local_folder(location)
    if folder is not None:
        return LocalStorage(folder)
    filesystem, root = open_filesystem(str(location))
    return RemoteStorage(filesystem, root)


def local_folder(location: str | Path) -> Path | None:
    """Return the folder of this machine that a location is, None for a URI that leads elsewhere."""
    text = str(location)
    scheme, separator, _ = text.partition("://")
    if not separator or isinstance(location, Path):
        return Path(text)
    if scheme != "file":
        return None
    path = urlsplit(text).path
    return Path(url2pathname(path))


def open_filesystem(uri: str) -> tuple[Any, str]:
    """Return the filesystem of fsspec that reaches a URI, and the path of the URI in it.

    Raises:
        RequirementError: a package is missing that reads such URIs.
        StorageError: no installed package reads such URIs.

    """
    scheme, _, _ = uri.partition("://")
    try:
        filesystem, root = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        raise RequirementError(f"{scheme}:// needs another package", str(error)) from None
    except ValueError as error:
        place = without_password(uri)
        schemes = "abfs://, gs://, hdfs://, s3://, webhdfs:// and others"
        raise StorageError(f"{place}: {error}; fsspec knows {schemes}") from None
    except Exception as error:
        raise storage_failure(uri, error) from error
    return filesystem, root


def list_tables(location: str | Path, storage: Storage, tables: Iterable[str]) -> list[str]:
    """Return which of some tables there are at a location, in their order."""
    try:
        folders = storage.folders()
    except (FileNotFoundError, NotADirectoryError):
        place = without_password(str(location))
        raise StorageError(
            f"{place}: no such folder; hopline pipeline run CAPTURES --out TABLES makes tables"
        ) from None
    except Exception as error:
        raise storage_failure(str(location), error) from error
    return [table for table in tables if table in folders]


def list_files(location: str | Path, storage: Storage, table: str) -> list[TableFile]:
    """Return the files with rows of a table.

    Raises:
        StorageError: They cannot be listed, or not all of them belong to the table as it is now.
    """
    try:
        files = list(storage.files(table))
    except Exception as error:
        raise storage_failure(str(location), error) from error
    for log, format_ in _LOGS.items():
        has_log = any(log in file.path for file in files)
        if has_log:
            place = without_password(str(location))
            raise StorageError(
                f"{place}: {table} has the format {format_}, which keeps old rows beside the "
                f"new ones: query it with Spark, for instance"
            )
    files_with_rows = [file for file in files if _has_rows(file)]
    return sorted(files_with_rows, key=attrgetter("path"))


def storage_failure(location: str, error: BaseException) -> StorageError:
    """Return what a library of the storage raised as an error of one line."""
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else "no reason given"
    place = without_password(location)
    kind = type(error).__name__
    return StorageError(f"{place}: {kind}: {reason}")


def without_password(location: str) -> str:
    """Return a location as it may be shown."""
    scheme, separator, rest = location.partition("://")
    login, at, host = rest.partition("@")
    user, colon, _ = login.partition(":")
    is_login = separator and at and "/" not in login
    if not is_login or not colon:
        return location
    return f"{scheme}://{user}:***@{host}"


def _has_rows(file: TableFile) -> bool:
    parts = file.path.split("/")
    is_hidden = any(part.startswith(_HIDDEN) for part in parts)
    return file.path.endswith(".parquet") and not is_hidden


class ReadOnlyFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files of tables for DuckDB: ``tables://TABLE/date=DAY/NAME.parquet``, to be read only."""

    protocol = SCHEME
    cachable = False

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage
        self._files: dict[str, TableFile] = {}

    def add(self, files: Iterable[TableFile]) -> None:
        """Make some files known; no others can be opened."""
        self._files.update((file.path, file) for file in files)

    # What DuckDB calls, and nothing that changes anything.

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(f"{SCHEME}://")

    def glob(self, path: str, **_: Any) -> list[str]:
        """List the files that a name with ``*`` in it stands for: all that begin with what is before the first one."""
        start, star, _rest = self._strip_protocol(path).partition("*")
        if star:
            return [name for name in self._files if name.startswith(start)]
        return [start] if start in self._files else []

    def info(self, path: str, **_: Any) -> Mapping[str, Any]:
        """Return name, type and size of a file."""
        file = self._file(path)
        return {
            "name": file.path,
            "type": "file",
            "size": file.size,
        }

    def exists(self, path: str, **_: Any) -> bool:
        """Return whether there is such a file."""
        return self._strip_protocol(path) in self._files

    def isfile(self, path: str) -> bool:
        """Return whether there is such a file."""
        return self.exists(path)

    def modified(self, path: str) -> datetime:
        """Return the same moment always: the listing is a snapshot, and its files never change."""
        self._file(path)
        return datetime.fromtimestamp(0, UTC)

    def open(self, path: str, mode: str = "rb", **_: Any) -> _OpenFile:
        """Open a file for reading."""
        if mode != "rb":
            raise PermissionError("tables can only be read")
        file = self._file(path)
        read, close = self._storage.reader(file.path)
        return _OpenFile(file, read, close)

    def _file(self, path: str) -> TableFile:
        name = self._strip_protocol(path)
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(path) from None


class _OpenFile:
    """A file that several threads read at the same time, each from a position of its own."""

    def __init__(self, file: TableFile, read: ReadRange, close: Callable[[], None]) -> None:
        self._file = file
        self._read = read
        self._close = close
        self._thread = threading.local()
        self.closed = False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origins = {
            os.SEEK_SET: 0,
            os.SEEK_CUR: self.tell(),
            os.SEEK_END: self._file.size,
        }
        self._thread.position = origins[whence] + offset
        return self.tell()

    def tell(self) -> int:
        position: int = getattr(self._thread, "position", 0)
        return position

    def read(self, size: int = -1) -> bytes:
        position = self.tell()
        rest = max(self._file.size - position, 0)
        count = rest if size < 0 else min(size, rest)
        data = self._read(position, count) if count else b""
        self._thread.position = position + len(data)
        return data

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._close()

    def __del__(self) -> None:
        self.close()  # DuckDB lets go of the files of a query without closing them
