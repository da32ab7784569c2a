"""A network of many nodes in virtual time: real nodes, real bytes, and faults, all from one integer seed."""

from hopline.simulation.invariants import Violation
from hopline.simulation.loop import VirtualLoop
from hopline.simulation.world import Report, simulate

__all__ = ["Report", "Violation", "VirtualLoop", "simulate"]
