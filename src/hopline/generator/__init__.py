"""Synthetic captures: traffic of any size with planted faults, and the truth about it.

`generate` writes them. What happens, in order: `catalogue` lists the scenarios, which build flow templates
(`flow_template`, `scenarios`, `faults`, `undecodable`); `compiled_scenarios` prepares the templates; `plan` decides how
many flows of each begin when; `flow_batch` instantiates them; `node_logs` sorts their records by node and `segments`
writes them. `truth` derives the tables that an analysis of the capture must find, and `evaluation` compares.
"""

from hopline.generator.catalogue import DEFAULT_RATES
from hopline.generator.generate import generate
from hopline.generator.plan import Options

__all__ = ["DEFAULT_RATES", "Options", "generate"]
