"""Detects replayed messages, with a memory that is bounded in time and in count.

Theory of operation. Messages are remembered by their nonces, in groups of those that were signed within the same
quarter of a second. A group is forgotten as a whole, when it has become stale or when the memory is full; what remains
of it is its number. So there are three cases for a message. Its group is remembered: the message is a replay if the
group has its nonce. Its group was forgotten: the message is refused as stale, because it may be a replay. Its group is
neither: the message is new.

Numbers of forgotten groups are kept as spans, not as one mark below which everything is refused: a clock that was an
hour ahead leaves a span in the future, and with a mark there everything would be stale for an hour after the clock was
set right. With spans it is not. Only what is signed in the times that were gone through already is refused when they
come for the second time, because it cannot be told from replays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from hopline.message import get_logger
from hopline.security.domain import Domain
from hopline.security.errors import SecurityReason

log = get_logger("hopline.security")

GROUP_SPAN = 250
"""Milliseconds of signing that are remembered, and forgotten, together."""
_MOST_SPANS = 64
_NONE = -1


class _Spans:
    """Numbers, as a few spans of consecutive ones. When there are too many, the closest two become one."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @property
    def last(self) -> int:
        """The largest number, or -1."""
        return self._lasts[-1] if self._lasts else _NONE

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return False
        return number <= self._lasts[index]

    def add(self, number: int) -> None:
        """Add a number."""
        if number in self:
            return
        index = bisect_right(self._firsts, number)
        self._firsts.insert(index, number)
        self._lasts.insert(index, number)
        self._join_if_adjacent(index)
        self._join_if_adjacent(index - 1)
        if len(self._firsts) > _MOST_SPANS:
            neighbours = zip(self._lasts, self._firsts[1:], strict=False)
            gaps = [after - before for before, after in neighbours]
            smallest = min(gaps)
            self._join(gaps.index(smallest))

    def _join_if_adjacent(self, index: int) -> None:
        """Join a span with the next one if there are both, and no number is between them."""
        has_next = 0 <= index < len(self._firsts) - 1
        if has_next and self._firsts[index + 1] == self._lasts[index] + 1:
            self._join(index)

    def _join(self, index: int) -> None:
        """Make one span of two neighbours, and of what is between them."""
        del self._firsts[index + 1], self._lasts[index]


class ReplayCache:
    """Nonces of the messages of one domain, grouped by the time that they were signed.

    When it is full it forgets the oldest group, and from then on refuses, as stale, whatever was signed in the time of
    that group. So the window shrinks under load, and a replay is never taken for new. Only call it with what has been
    verified: strangers can neither fill nor probe it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._groups: dict[int, set[bytes]] = {}
        self._count = 0
        self._forgotten = _Spans()  # numbers of groups
        self._latest = 0.0  # milliseconds: what the clock has shown

    def __len__(self) -> int:
        return self._count

    def refusal(self, domain: Domain, signed: int, nonce: bytes) -> SecurityReason | None:
        """Remember a message by the time it was signed (milliseconds) and its nonce, or return why it is refused."""
        now = self._clock() * 1000
        skew = domain.clock_skew * 1000
        window = domain.window * 1000
        earliest = now - window - skew
        if now >= self._latest:
            self._latest = now
        elif now < self._latest - window - skew:
            self._clock_went_back(domain, now, now + skew)
        number = signed // GROUP_SPAN
        is_forgotten = number <= self._forgotten.last and number in self._forgotten
        if is_forgotten or signed < earliest:
            return SecurityReason.STALE
        if signed > now + skew:
            return SecurityReason.AHEAD
        group = self._groups.get(number)
        if group is None:
            self._forget_before(earliest)
            group = self._groups[number] = set()
        elif nonce in group:
            return SecurityReason.REPLAYED
        while self._count >= domain.replay_capacity:
            oldest = min(self._groups)
            self._forget(oldest)
        if number in self._groups:  # else its own group had to go, and its replay is stale
            group.add(nonce)
            self._count += 1
        return None

    def _clock_went_back(self, domain: Domain, now: float, latest_signed: float) -> None:
        """Forget the groups of future times, which would take the room of others, and log what happened."""
        ahead = [number for number in self._groups if number * GROUP_SPAN > latest_signed]
        for number in ahead:
            self._forget(number)
        log.warning("the clock was set back by %.0f s", (self._latest - now) / 1000)
        until = (self._forgotten.last + 1) * GROUP_SPAN
        if until > latest_signed:
            log.warning(
                "domain %s took messages while the clock was ahead; what is signed in the same times, the last of them"
                " %.0f s from now, is refused as stale when these come again, because it cannot be told from replays",
                domain.name,
                (until - now) / 1000,
            )
        self._latest = now

    def _forget_before(self, earliest: float) -> None:
        stale = [number for number in self._groups if (number + 1) * GROUP_SPAN <= earliest]
        for number in stale:
            self._forget(number)

    def _forget(self, number: int) -> None:
        # Whatever the clock does: what has been forgotten stays refused.
        group = self._groups.pop(number)
        self._count -= len(group)
        self._forgotten.add(number)
