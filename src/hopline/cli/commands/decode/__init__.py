"""``hopline decode``: where messages are read from (`inputs`), and how they are shown (`drawing`, `json_lines`)."""

from hopline.cli.commands.decode.command import decode_command

__all__ = ["decode_command"]
