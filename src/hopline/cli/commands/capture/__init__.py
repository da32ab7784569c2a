"""``hopline capture``: control the recording of running nodes (`command`), and inspect its files (`files`)."""

from hopline.cli.commands.capture.command import capture_app

__all__ = ["capture_app"]
