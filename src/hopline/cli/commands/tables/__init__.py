"""``hopline tables``: query the pipeline's tables (`command`), and print their rows (`rows`)."""

from hopline.cli.commands.tables.command import tables_command

__all__ = ["tables_command"]
