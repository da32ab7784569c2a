"""``hopline node``: run the actors of an application as a node."""

from hopline.cli.commands.node.command import node_command

__all__ = ["node_command"]
