"""The lines that a node or a server prints when it is ready."""

from __future__ import annotations

from collections.abc import Mapping

_NAME_WIDTH = 14


def ready_lines(title: str, properties: Mapping[str, str]) -> str:
    """Return a title, and below it a line for each property."""
    lines = [f"  {name:{_NAME_WIDTH}}{value}" for name, value in properties.items()]
    return "\n".join([f"{title} is ready", *lines])
