"""Names and texts as SQL writes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever is in it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
