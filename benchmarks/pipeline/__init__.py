"""The parts of ``make bench-pipeline``."""
