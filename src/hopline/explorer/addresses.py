"""Addresses of pages: the state of a page is its address, so that a link shows everybody the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from hopline.explorer.parameters import LONGEST_PARAMETER


def address(path: str, parameters: Mapping[str, Any]) -> str:
    """Return the address of a page; parameters without a value are left out.

    >>> address("/search", {"outcome": "failed", "q": ""})
    '/search?outcome=failed'
    """
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    if any(len(value) > LONGEST_PARAMETER for value in given.values()):
        return ""  # no page takes it
    return f"{path}?{urlencode(given)}" if given else path


def own_path(text: str) -> str:
    """Return an address if it is one of the explorer's, else the overview's: no link leads to another site."""
    parts = urlsplit(text.replace("\\", "/"))
    has_host = bool(parts.scheme or parts.netloc) or text.startswith("//")
    is_path = parts.path.startswith("/") and text.isprintable()
    return text if is_path and not has_host else "/"
