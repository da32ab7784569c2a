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
    """Return an address if it is one of ours, the overview's otherwise: nobody is sent elsewhere by a link of ours."""
    parts = urlsplit(text.replace("\\", "/"))
    is_ours = not parts.scheme and not parts.netloc and parts.path.startswith("/") and not text.startswith("//")
    return text if is_ours and text.isprintable() else "/"
