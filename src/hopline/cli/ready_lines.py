"""The lines that a node or a server prints when it is ready."""

from __future__ import annotations

from collections.abc import Mapping

from hopline.cli.terminal import line_width
from hopline.cli.wrapping import wrap

_INDENT = "  "
_NAME_WIDTH = 14


def ready_lines(title: str, properties: Mapping[str, str]) -> str:
    """Return a title, and below it a line for each property, or several where the terminal is narrow."""
    width = line_width()
    hanging = _INDENT + " " * _NAME_WIDTH
    lines = wrap(f"{title} is ready", width)
    for name, value in properties.items():
        lines += wrap(f"{_INDENT}{name:{_NAME_WIDTH}}{value}", width, hanging)
    return "\n".join(lines)
