"""Correlation ids of new flows: text of GUIDs, made in a fraction of the time of a random GUID and as unique.

A process draws one random prefix of 74 bits and counts the last twelve digits from a random start, in blocks: all ids
of a block have the same beginning.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator

_DIGITS_IN_BLOCK = 2
_LAST_DIGITS = tuple(b"%0*x" % (_DIGITS_IN_BLOCK, number) for number in range(16**_DIGITS_IN_BLOCK))
_BLOCKS = 16 ** (12 - _DIGITS_IN_BLOCK)


class _FlowIds:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        start = uuid.uuid4()
        self._prefix = str(start)[:24].encode()
        self._blocks: Iterator[int] = itertools.count(start.int % _BLOCKS)
        self._begin_block()

    def _begin_block(self) -> None:
        beginning = b"%b%0*x" % (self._prefix, 12 - _DIGITS_IN_BLOCK, next(self._blocks) % _BLOCKS)
        self._block = beginning, iter(_LAST_DIGITS)  # one tuple, so that threads never mix two blocks

    def new(self) -> bytes:
        while True:
            beginning, digits = self._block
            try:
                return beginning + next(digits)
            except StopIteration:
                self._begin_block()


_ids = _FlowIds()
if hasattr(os, "register_at_fork"):  # otherwise a child process would make the ids of its parent
    os.register_at_fork(after_in_child=_ids.renew)

new_flow_id = _ids.new
