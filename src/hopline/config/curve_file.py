"""CURVE keys in a file: a pair of lines, ``public`` and ``secret``, readable by nobody but its owner."""

from __future__ import annotations

import os
from pathlib import Path

from hopline.security import KeyFileError
from hopline.security.key_file import MAX_FILE_SIZE, private_file_problem

_NAMES = ("public", "secret")
PRIVATE = 0o600


class CurveFileError(KeyFileError):
    """A file that has no key pair, or that others may use."""


def read_curve_pair(path: Path) -> tuple[bytes, bytes]:
    """Give the public and the secret key of a file, as Z85."""
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            problem = private_file_problem(os.fstat(opened), path)
            pair = _parse(b"" if problem else os.read(opened, MAX_FILE_SIZE))
        finally:
            os.close(opened)
    except OSError as error:
        raise CurveFileError(path, error.strerror or str(error)) from None
    if problem is not None:
        raise CurveFileError(path, problem.text)
    if pair is None:
        raise CurveFileError(
            path, "expected two lines, 'public' and 'secret', with a key each; see: hopline keys curve"
        )
    return pair


def _parse(content: bytes) -> tuple[bytes, bytes] | None:
    lines = [line.split() for line in content.splitlines() if line.strip() and not line.startswith(b"# ")]
    if not all(len(words) == 2 for words in lines):
        return None
    found = {name.decode("ascii", "replace"): key for name, key in lines}
    return (found["public"], found["secret"]) if set(found) == set(_NAMES) and len(lines) == len(_NAMES) else None


def write_curve_pair(path: Path, public: bytes, secret: bytes) -> None:
    """Write a new file for a key pair; one that is there already stays."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(opened, "wb") as file:
            file.write(b"public %b\nsecret %b\n" % (public, secret))
    except FileExistsError:
        raise CurveFileError(path, "there is a file already; its keys may be in use, so choose another name") from None
    except OSError as error:
        raise CurveFileError(path, error.strerror or str(error)) from None
