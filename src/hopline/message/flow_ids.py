"""Correlation ids of new flows: GUID text that costs a tenth of a random GUID and is as unique.

A process draws one random prefix of 74 bits and counts the last twelve digits from a random start.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator

_LAST_GROUP = 1 << 48


class _FlowIds:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        start = uuid.uuid4()
        self._prefix = str(start)[:24].encode()
        self._count: Iterator[int] = itertools.count(start.int % _LAST_GROUP)

    def new(self) -> bytes:
        return b"%b%012x" % (self._prefix, next(self._count) % _LAST_GROUP)


_ids = _FlowIds()
if hasattr(os, "register_at_fork"):  # else a child would count on from where its parent does
    os.register_at_fork(after_in_child=_ids.renew)

new_flow_id = _ids.new
