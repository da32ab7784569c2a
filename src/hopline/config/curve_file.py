"""Files of CURVE key pairs: two lines, ``public`` and ``secret``, readable by their owner only."""

from __future__ import annotations

import os
from pathlib import Path

from hopline.security import KeyFileError
from hopline.security.key_file import MAX_FILE_SIZE, private_file_problem

_NAMES = (b"public", b"secret")
PRIVATE = 0o600
# Not blocking: the path may be a pipe.
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_READ_FLAGS = os.O_RDONLY | _NONBLOCK | _CLOSE_ON_EXEC
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class CurveFileError(KeyFileError):
    """A file that has no key pair, or that other users can read."""


def read_curve_pair(path: Path) -> tuple[bytes, bytes]:
    """Return the public and the secret key of a file, in Z85.

    Raises:
        CurveFileError: If the file cannot be read, is readable by other users, or has no key pair.
    """
    try:
        descriptor = os.open(path, _READ_FLAGS)
        try:
            problem = private_file_problem(os.fstat(descriptor), path)
            content = b"" if problem else os.read(descriptor, MAX_FILE_SIZE)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CurveFileError(path, error.strerror or str(error)) from None
    if problem is not None:
        raise CurveFileError(path, problem.text)
    pair = _parse(content)
    if pair is None:
        raise CurveFileError(
            path, "expected two lines, 'public' and 'secret', with a key each; see: hopline keys curve"
        )
    return pair


def _parse(content: bytes) -> tuple[bytes, bytes] | None:
    keys = {}
    lines = 0
    for line in content.splitlines():
        words = line.split()
        if not words or line.startswith(b"# "):
            continue
        if len(words) != 2:
            return None
        name, key = words
        keys[name] = key
        lines += 1
    if lines != len(_NAMES) or keys.keys() != set(_NAMES):
        return None
    return keys[b"public"], keys[b"secret"]


def write_curve_pair(path: Path, public: bytes, secret: bytes) -> None:
    """Write a key pair to a new file.

    Raises:
        CurveFileError: If the file exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, _WRITE_FLAGS, PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"public %b\nsecret %b\n" % (public, secret))
    except FileExistsError:
        raise CurveFileError(path, "the file exists; its keys may be in use, so choose another name") from None
    except OSError as error:
        raise CurveFileError(path, error.strerror or str(error)) from None
