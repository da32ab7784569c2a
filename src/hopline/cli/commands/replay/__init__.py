"""``hopline replay``: select recorded requests (`command`), and send them at a given speed (`driver`)."""

from hopline.cli.commands.replay.command import replay_command

__all__ = ["replay_command"]
