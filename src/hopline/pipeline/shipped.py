"""Hopline on an executor: the parts that the pipeline runs there, with the compiled modules that they need.

This file stands as ``hopline/__init__.py`` in the archive that `hopline.pipeline.shipping` makes. Executors have no
sockets to open, and need not have what the rest of Hopline is built on.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from zipfile import ZipFile

_ARCHIVE = Path(__file__).parent.parent
_UNPACKED = _ARCHIVE.with_suffix(".unpacked")  # Python loads no extension module out of an archive


def _unpack() -> None:
    """Unpack what came along beside the archive; whichever worker of the executor is first does it for all."""
    if not _UNPACKED.is_dir():
        aside = Path(mkdtemp(dir=_ARCHIVE.parent, prefix=f"{_ARCHIVE.stem}-"))
        with ZipFile(_ARCHIVE) as archive:
            archive.extractall(aside, [name for name in archive.namelist() if name.startswith("needs/")])
        try:
            os.rename(aside, _UNPACKED)  # noqa: PTH104 - fails where another has just done so, and only there
        except OSError:
            rmtree(aside)
            if not _UNPACKED.is_dir():
                raise
    sys.path.append(str(_UNPACKED / "needs"))


_MISSING = [name for name in ("msgspec", "xxhash") if find_spec(name) is None]
if _MISSING:
    _unpack()
for _name in _MISSING:
    try:
        import_module(_name)
    except ImportError as problem:
        raise ImportError(
            f"the {_name} that Hopline's driver sent does not run on this executor's Python ({sys.version}, "
            f"{sys.platform}): install {_name} there, or use the same Python on both sides"
        ) from problem
