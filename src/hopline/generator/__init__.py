"""Captures that nobody recorded: traffic of any size with planted faults, and the truth about it beside."""

from hopline.generator.catalogue import DEFAULT_RATES
from hopline.generator.generate import generate
from hopline.generator.plan import Options

__all__ = ["DEFAULT_RATES", "Options", "generate"]
