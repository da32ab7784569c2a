"""Which messages were here before: a memory that is bounded in time and in count."""

from __future__ import annotations

from collections.abc import Callable

from hopline.security.domain import Domain
from hopline.security.errors import SecurityReason

GROUP_SPAN = 250
"""Milliseconds of signing that are remembered, and forgotten, together."""


class ReplayCache:
    """Nonces of the messages of one domain, grouped by the time that they were signed.

    When it is full it forgets the oldest group, and from then on refuses, as stale, whatever was signed before the end
    of that group. So the window shrinks under load, and a replay is never taken for new. Only call it with what has
    been verified: strangers can neither fill nor probe it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._groups: dict[int, set[bytes]] = {}
        self._count = 0
        self._oldest = 0  # milliseconds: whatever was signed before is forgotten, and refused

    def __len__(self) -> int:
        return self._count

    def refusal(self, domain: Domain, signed: int, nonce: bytes) -> SecurityReason | None:
        """Remember a message by the time it was signed (milliseconds) and its nonce, or tell why it is refused."""
        now = self._clock() * 1000
        skew = domain.clock_skew * 1000
        earliest = now - domain.window * 1000 - skew
        if signed < earliest or signed < self._oldest:
            return SecurityReason.STALE
        if signed > now + skew:
            return SecurityReason.AHEAD
        number = signed // GROUP_SPAN
        group = self._groups.get(number)
        if group is None:
            self._forget_before(earliest)
            group = self._groups[number] = set()
        elif nonce in group:
            return SecurityReason.REPLAYED
        while self._count >= domain.replay_capacity:
            self._forget(min(self._groups))
        if signed >= self._oldest:  # else its own group had to go, and its replay is stale
            group.add(nonce)
            self._count += 1
        return None

    def _forget_before(self, earliest: float) -> None:
        for number in [number for number in self._groups if (number + 1) * GROUP_SPAN <= earliest]:
            self._forget(number)

    def _forget(self, number: int) -> None:
        # The mark never goes back, whatever the clock does: what has been forgotten stays refused.
        self._count -= len(self._groups.pop(number))
        self._oldest = max(self._oldest, (number + 1) * GROUP_SPAN)
