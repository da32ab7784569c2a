"""Tests of actors: nodes and networks in virtual time, fake contexts, and expectations about what was sent.

* `node` runs a node in one line, on a clock that jumps instead of waiting;
* `network` runs several nodes in one process, with the faults that a test asks for;
* `context` is what a handler needs to be called directly;
* `expect` checks what was sent, and shows what was sent instead;
* `run` runs a test in virtual time where no plugin does.

The fixtures of the pytest plugin are in `pytest_hopline`, which pytest finds by itself.
"""

from hopline.testing.clock import DeadlockError, VirtualRunner, run, virtual_time
from hopline.testing.contexts import FakeContext, context
from hopline.testing.expectations import Expectation, expect
from hopline.testing.networks import InProcessNetwork, network
from hopline.testing.nodes import node

__all__ = [
    "DeadlockError",
    "Expectation",
    "FakeContext",
    "InProcessNetwork",
    "VirtualRunner",
    "context",
    "expect",
    "network",
    "node",
    "run",
    "virtual_time",
]
