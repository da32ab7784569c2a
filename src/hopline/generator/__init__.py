"""Captures that nobody recorded: traffic of any size with planted faults, and the truth about it beside."""
