"""Hopline on its way to the executors, which need nothing installed but what Spark itself asks for."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from hopline.datasource.source import HoplineSource

_HOPLINE = Path(__file__).parent.parent
_FOUND_BY_SPARK = "pyspark_hopline"
_NEEDED = ("msgspec", "xxhash")
ARCHIVE_NAME = "hopline.zip"


def ship(session: SparkSession) -> None:
    """Send this package to all executors of the session, and make its data source known."""
    if not _HOPLINE.is_dir():  # it came out of such an archive itself, by spark-submit, which sends it everywhere
        return
    session.addArtifacts(str(_archive()), pyfile=True)
    try:
        # Where Spark's own Python has no Hopline installed, it would not find the source.
        session.dataSource.register(HoplineSource)
    except AnalysisException as problem:
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@cache
def _archive() -> Path:
    """Write the archive where it stays until this process ends: an executor that starts late asks the driver for it."""
    directory = mkdtemp(prefix="hopline-ship-")
    atexit.register(rmtree, directory, ignore_errors=True)
    return write_archive(Path(directory))


def write_archive(directory: Path) -> Path:
    """Write what executors need of Hopline into an archive there: the same bytes from the same sources."""
    path = directory / ARCHIVE_NAME
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in _contents():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return path


def _contents() -> Iterator[tuple[str, bytes]]:
    for name, file in _files(_HOPLINE):
        source = _HOPLINE / "pipeline" / "shipped.py" if name == "__init__.py" else file
        yield f"hopline/{name}", source.read_bytes()
    for name, file in _files(_package(_FOUND_BY_SPARK)):
        yield f"{_FOUND_BY_SPARK}/{name}", file.read_bytes()
    for needed in _NEEDED:
        for name, file in _files(_package(needed), "*.py", "*.so"):
            yield f"needs/{needed}/{name}", file.read_bytes()


def _files(directory: Path, *patterns: str) -> Iterator[tuple[str, Path]]:
    for file in sorted(file for pattern in patterns or ("*.py",) for file in directory.rglob(pattern)):
        yield file.relative_to(directory).as_posix(), file


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name)
    return Path(spec.origin).parent
