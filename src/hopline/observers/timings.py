"""How long handlers and requests take, as histograms.

Measuring is off until `Node.measure_times` is called, as a collector of metrics does. It listens to handlers alone, so
that answers inside the node keep their shortest way, and hubs report their requests themselves.

Labels are bounded: partitions are left out, which may be as many as there are customers, and beyond `MOST_SERIES`
everything further is counted under `OTHER`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from hopline.client import MessageHub
from hopline.client.reply_spec import FAILURE, Read
from hopline.message import AnswerTimeoutError, HoplineError, MessageIdentifier, printable_name
from hopline.observers.observer import NodeObserver
from hopline.routing import Delivery, Label

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
MOST_SERIES = 200  # of handlers, and as many of requests
OTHER = "(other)"

_MOST_KEYS = 10_000  # that are remembered with their series

LabelOf: TypeAlias = Callable[[bytes, MessageIdentifier], Label]  # of a receiver, for a kind of message
Labels: TypeAlias = tuple[str, ...]
Key = TypeVar("Key")


class Series:
    """The durations of what has the same labels, and how many are under way or have failed."""

    __slots__ = ("counts", "failed", "running", "seconds", "timed_out")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # by the smallest bound that is not exceeded; the last has none
        self.seconds = 0.0  # in total
        self.running = 0
        self.failed = 0
        self.timed_out = 0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """Return how many durations did not exceed each bound, as Prometheus writes them."""
        total = 0
        buckets = []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets


class SeriesTable(Generic[Key]):
    """Series by their labels, and by the key that is looked up for each event.

    Args:
        labels_of: Returns the labels of a key; None for what is not measured.
        names: How many labels there are.
    """

    def __init__(self, labels_of: Callable[[Key], Labels | None], names: int) -> None:
        self.by_labels: dict[Labels, Series] = {}
        self._labels_of = labels_of
        self._other = (OTHER,) * names
        self._by_key: dict[Key, Series | None] = {}

    def of(self, key: Key) -> Series | None:
        """Return the series of a key; None for what is not measured."""
        try:
            return self._by_key[key]
        except KeyError:
            return self._find(key)

    def _find(self, key: Key) -> Series | None:
        if len(self._by_key) >= _MOST_KEYS:
            self._by_key.clear()
        labels = self.labels_of(key)
        series = None if labels is None else self.by_labels.setdefault(labels, Series())
        self._by_key[key] = series
        return series

    def labels_of(self, key: Key) -> Labels | None:
        """Return the labels under which a key is counted."""
        labels = self._labels_of(key)
        if labels is None or labels in self.by_labels or len(self.by_labels) < MOST_SERIES - 1:
            return labels
        return self._other


class Timings(NodeObserver):
    """Measures the handlers and requests of one node.

    Args:
        label_of: Returns the display names of a local actor and of its handler.
        is_hidden: Returns whether messages of an identity are not measured: questions to the node itself.
        clock: The node's monotonic clock.
    """

    never_raises = True

    def __init__(self, label_of: LabelOf, is_hidden: Callable[[bytes], bool], clock: Callable[[], float]) -> None:
        self._label_of = label_of
        self._is_hidden = is_hidden
        self._clock = clock
        self._handlers = SeriesTable(self._handler_labels, 2)
        self._requests = SeriesTable(self._request_labels, 1)
        self._hubs: list[MessageHub] = []

    @property
    def handlers(self) -> dict[Labels, Series]:
        """The series of handlers, by kind of message and class of actor."""
        return self._handlers.by_labels

    @property
    def requests(self) -> dict[Labels, Series]:
        """The series of requests, by kind of message."""
        return self._requests.by_labels

    def _request_labels(self, kind: MessageIdentifier) -> Labels | None:
        return None if self._is_hidden(kind.identity) else (kind_label(kind),)

    def _handler_labels(self, key: tuple[bytes, MessageIdentifier]) -> Labels | None:
        receiver, kind = key
        if self._is_hidden(kind.identity):
            return None
        actor, _ = self._label_of(receiver, kind)
        return kind_label(kind), printable_name(actor or "")

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> _Handling | None:  # noqa: ARG002 - the event's signature
        """Begin to measure a handler."""
        series = self._handlers.of((receiver, delivery.identifier))
        return None if series is None else _Handling(series, self._clock)

    def add_hub(self, hub: MessageHub) -> None:
        """Measure the requests of a hub, too."""
        self._hubs.append(hub)
        hub.time_requests(self._request_over)

    def _request_over(self, delivery: Delivery, outcome: object, read: Read) -> None:
        """Count a request that was answered or has failed, also because its time was over."""
        series = self._requests.of(delivery.identifier)
        if series is None:
            return
        series.add(self._clock() - delivery.since)
        if isinstance(outcome, AnswerTimeoutError):
            series.timed_out += 1
        elif isinstance(outcome, HoplineError) or read is FAILURE.read:
            series.failed += 1

    def requests_in_flight(self) -> Counter[Labels]:
        """Return how many requests wait for an answer, by their labels."""
        in_flight: Counter[Labels] = Counter()
        for hub in self._hubs:
            kinds = Counter(waiting.message.identifier for waiting in hub.all_waiting())
            for kind, count in kinds.items():
                self._requests.of(kind)  # begins its series, if it has none yet
                labels = self._requests.labels_of(kind)
                if labels is not None:
                    in_flight[labels] += count
        return in_flight


class _Handling:
    __slots__ = ("_clock", "_series", "_since")

    def __init__(self, series: Series, clock: Callable[[], float]) -> None:
        self._series = series
        self._clock = clock
        self._since = clock()
        series.running += 1

    def detach(self) -> None:
        """Do nothing: nothing was made current."""

    def end(self, error: BaseException | None) -> None:
        series = self._series
        series.running -= 1
        series.add(self._clock() - self._since)
        if error is not None:
            series.failed += 1


def kind_label(kind: MessageIdentifier) -> str:
    """Return the label of a kind of message: its name and version, without the partition."""
    return str(MessageIdentifier(kind.identity, kind.version)) if kind.partition else str(kind)
