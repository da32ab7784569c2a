"""``python -m hopline`` is ``hopline``."""

from hopline.cli import main

main()
