"""Traces: of each record of a message what the tables of flows and handlers need, and no more.

They are narrow, and those of a flow lie together. So one pass of vectorised Python over them makes a table, where each
would sort and move all messages otherwise.
"""

from hopline.pipeline.traces.columns import NEEDED, TRACES, traces_of
from hopline.pipeline.traces.drawers import Chest
from hopline.pipeline.traces.kernels import Kernel, Traces, TracesInFiles, TracesOfMessages

__all__ = ["NEEDED", "TRACES", "Chest", "Kernel", "Traces", "TracesInFiles", "TracesOfMessages", "traces_of"]
