"""Addresses of pages: an address has the whole state of its page, so that a link always shows the same."""

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
    query: dict[str, str] = {}
    for name, value in parameters.items():
        if value in (None, ""):
            continue
        text = str(value)
        if len(text) > LONGEST_PARAMETER:
            return ""  # no page takes it
        query[name] = text
    if not query:
        return path
    return f"{path}?{urlencode(query)}"


def own_path(text: str) -> str:
    """Return an address if it is one of the explorer's, else the overview's: no link leads to another site."""
    parts = urlsplit(text.replace("\\", "/"))
    has_host = bool(parts.scheme or parts.netloc)
    if has_host or text.startswith("//"):
        return "/"
    is_path = parts.path.startswith("/") and text.isprintable()
    return text if is_path else "/"
