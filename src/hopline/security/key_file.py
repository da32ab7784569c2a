"""Read keys from a file that only the user of the node can read, with one key on each line.

A line is the name of a domain and a key, with space between: ``orders 9f86d081...``. A key is hex, or ``base64:`` and
base64. The first key of a domain signs, each verifies. Empty lines, and those that start with ``#``, are ignored.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from hopline.message import HoplineError, get_logger
from hopline.security.key import MIN_KEY_SIZE, Key

MAX_FILE_SIZE = 1024 * 1024
"""Bytes of a key file."""

_BASE64 = "base64:"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_log = get_logger("hopline.security")

_Keys = dict[str, tuple[Key, ...]]
_Seen = tuple[int, ...]


class KeyFileError(HoplineError):
    """A key file cannot be used. The error never contains the content of the file.

    Attributes:
        path: The file.
        problem: What is wrong, and what to do about it.
        line: The number of the line, if one is to blame.
    """

    def __init__(self, path: Path, problem: str, line: int | None = None) -> None:
        super().__init__(path, problem, line)
        self.path = path
        self.problem = problem
        self.line = line

    def __str__(self) -> str:
        place = f", line {self.line}" if self.line else ""
        return f"key file {self.path}{place}: {self.problem}"


def load_keys(path: str | os.PathLike[str], *, domains: Iterable[str] | None = None) -> dict[str, tuple[Key, ...]]:
    """Return the keys of each domain in a file.

    Args:
        path: The key file.
        domains: The domains to read, each of which must be in the file; all of them if None.

    Raises:
        KeyFileError: The file cannot be used, or has no key for one of the domains.
    """
    return _load(Path(path), domains)[0]


def key_line(domain: str, key: Key) -> str:
    """Return a key as a line of a key file."""
    return f"{domain} {key.reveal().hex()}\n"


class KeyRing:
    """The keys of a file that may change while the node runs: call `reload_if_changed` regularly.

    Args:
        path: The key file.
        domains: The domains to read, each of which must be in the file; all of them if None.

    Raises:
        KeyFileError: The file cannot be used, or has no key for one of the domains.
    """

    def __init__(self, path: str | os.PathLike[str], *, domains: Iterable[str] | None = None) -> None:
        self.path = Path(path)
        self.error: KeyFileError | None = None
        self._domains = None if domains is None else tuple(domains)
        self._keys, self._seen = _load(self.path, self._domains)

    @property
    def keys(self) -> Mapping[str, tuple[Key, ...]]:
        """The keys in force, by domain."""
        return dict(self._keys)

    def __getitem__(self, domain: str) -> tuple[Key, ...]:
        return self._keys[domain]

    def __repr__(self) -> str:
        return f"KeyRing({str(self.path)!r}, {self._keys})"

    def reload_if_changed(self) -> bool:
        """Read the file again if it has changed, and return whether the keys have changed too.

        If the file cannot be used, the old keys stay, `error` holds the problem, and the problem is logged once.
        """
        try:
            seen = _seen(self.path.stat())
        except OSError as error:
            self._report(KeyFileError(self.path, _in_words(error)), ())
            return False
        if seen == self._seen:
            return False
        try:
            keys, self._seen = _load(self.path, self._domains)
        except KeyFileError as error:
            self._report(error, seen)
            return False
        self.error = None
        if keys == self._keys:
            return False
        self._keys = keys
        _log.info("key file %s has other keys now: %s", self.path, keys)
        return True

    def _report(self, error: KeyFileError, seen: _Seen) -> None:
        if self.error is None or seen != self._seen:
            _log.error("%s; the old keys stay in force", error)
        self.error, self._seen = error, seen


def _load(path: Path, domains: Iterable[str] | None) -> tuple[_Keys, _Seen]:
    try:
        # Not blocking, or a pipe in the file's place would hold up the node. What is checked is what is read.
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            status = os.fstat(opened)
            # No variable of a function that raises may hold the content: a traceback can show variables.
            result = private_file_problem(status, path) or _parse(os.read(opened, MAX_FILE_SIZE))
        finally:
            os.close(opened)
    except OSError as error:
        raise KeyFileError(path, _in_words(error)) from None
    if isinstance(result, _Problem):
        raise KeyFileError(path, result.text, result.line)
    if domains is None:
        return result, _seen(status)
    names = tuple(domains)
    missing = ", ".join(repr(name) for name in names if name not in result)
    if missing:
        raise KeyFileError(path, f"there is no key for {missing}")
    keys = {name: result[name] for name in names}
    return keys, _seen(status)


class _Problem(NamedTuple):
    text: str
    line: int | None = None


def private_file_problem(status: os.stat_result, path: Path) -> _Problem | None:
    """Return why a file is not safe for secrets, or None."""
    if not stat.S_ISREG(status.st_mode):
        return _Problem("this is not a regular file")
    if status.st_size > MAX_FILE_SIZE:
        return _Problem(f"{status.st_size} bytes are more than a key file has ({MAX_FILE_SIZE})")
    if os.name != "posix":  # elsewhere the mode does not say who may read
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return _Problem(f"it belongs to user {status.st_uid}, who could change it; it must be yours or root's")
    if status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        return _Problem(f"others may use it (mode {mode:04o}); run: chmod 600 {shlex.quote(str(path))}")
    return None


def _parse(content: bytes) -> _Keys | _Problem:
    """Return the keys, or the problem: raised from here, its traceback could show the secrets."""
    keys_by_domain: dict[str, list[Key]] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            words = line.decode().split()
        except UnicodeDecodeError:
            return _Problem("this is not text in UTF-8", number)
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            return _Problem("expected the name of a domain, a space and a key", number)
        key = _key(words[1])
        if isinstance(key, str):
            return _Problem(key, number)
        keys = keys_by_domain.setdefault(words[0], [])
        if key in keys:
            return _Problem(f"this key of {words[0]!r} is there already ({key.fingerprint})", number)
        keys.append(key)
    if not keys_by_domain:
        return _Problem("there is no key in it")
    return {name: tuple(keys) for name, keys in keys_by_domain.items()}


def _key(text: str) -> Key | str:
    """Return the key, or what is wrong with it."""
    try:
        if text.startswith(_BASE64):
            secret = base64.b64decode(text.removeprefix(_BASE64), validate=True)
        else:
            secret = bytes.fromhex(text)
    except ValueError:
        return f"the key is neither hex nor {_BASE64!r} and base64"
    if len(secret) < MIN_KEY_SIZE:
        return f"the key has {len(secret)} bytes, it needs at least {MIN_KEY_SIZE}"
    return Key(secret)


def _seen(status: os.stat_result) -> _Seen:
    """Return what differs between two states of a file; a change of its mode counts too."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _in_words(error: OSError) -> str:
    return error.strerror or type(error).__name__
