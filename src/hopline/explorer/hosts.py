"""Which Host headers are answered: a page of somebody else must not read ours through a browser.

A name that an attacker owns can be made to lead to 127.0.0.1 (DNS rebinding); the browser then sends that name as the
host. So only names of this machine are taken, and addresses written as numbers, which no name server can forge.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/\s]+)(?::(\d{1,5}))?")
_LOOPBACK_NAMES = frozenset({"localhost"})


def is_loopback(host: str) -> bool:
    """Return whether a host can be reached from this machine only."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Hosts:
    """The names under which the explorer answers."""

    def __init__(self, bound_to: str, more: Iterable[str] = ()) -> None:
        self._only_loopback = is_loopback(bound_to)
        self._names = {*_LOOPBACK_NAMES, bound_to.lower(), *(name.lower() for name in more)}

    def accept(self, header: str) -> bool:
        """Return whether a request with this Host header is answered."""
        match = _HOST.fullmatch(header)
        if match is None:
            return False
        host = match[1].lower()
        if host in self._names:
            return True
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return False
        return address.is_loopback or not self._only_loopback
