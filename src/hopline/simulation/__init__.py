"""Networks of real nodes and servers in virtual time, with faults, each made from one integer seed."""

from hopline.simulation.invariants import Violation
from hopline.simulation.loop import VirtualLoop
from hopline.simulation.world import Report, simulate

__all__ = ["Report", "Violation", "VirtualLoop", "simulate"]
