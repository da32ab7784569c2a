"""A network of many nodes in virtual time: real nodes, real bytes, and faults, all from one integer seed."""

from hopline.simulation.loop import VirtualLoop
from hopline.simulation.watch import Violation
from hopline.simulation.world import Report, simulate

__all__ = ["Report", "Violation", "VirtualLoop", "simulate"]
