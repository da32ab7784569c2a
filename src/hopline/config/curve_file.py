"""Files of CURVE key pairs: two lines, ``public`` and ``secret``, readable by their owner only."""

from __future__ import annotations

import os
from pathlib import Path

from hopline.security import KeyFileError
from hopline.security.key_file import MAX_FILE_SIZE, private_file_problem

_NAMES = ("public", "secret")
PRIVATE = 0o600
# Not blocking: the path may be a pipe.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


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
    lines = [line.split() for line in content.splitlines() if line.strip() and not line.startswith(b"# ")]
    if len(lines) != len(_NAMES) or any(len(words) != 2 for words in lines):
        return None
    keys = {name.decode("ascii", "replace"): key for name, key in lines}
    if set(keys) != set(_NAMES):
        return None
    return keys["public"], keys["secret"]


def write_curve_pair(path: Path, public: bytes, secret: bytes) -> None:
    """Write a key pair to a new file.

    Raises:
        CurveFileError: If the file exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"public %b\nsecret %b\n" % (public, secret))
    except FileExistsError:
        raise CurveFileError(path, "the file exists; its keys may be in use, so choose another name") from None
    except OSError as error:
        raise CurveFileError(path, error.strerror or str(error)) from None
