"""What a node or a rendezvous server opens: the ends of its connections, however these are implemented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from hopline.message import Message

Frames: TypeAlias = Sequence[bytes]
Take: TypeAlias = Callable[[list[bytes]], None]
Unsent: TypeAlias = list[tuple[Message, float]]  # messages that never left, and how long each waited
Write: TypeAlias = Callable[[Message, bytes, float], Frames]  # a message for a peer, which waited for so many seconds
OnBroken: TypeAlias = Callable[[bytes], None]  # a peer
OnSent: TypeAlias = Callable[[bytes, Frames, float], None]  # a peer, the frames that left for it, and when
GaveUp: TypeAlias = Callable[[bytes, Unsent], None]  # a peer that is gone, and what never left for it


class Sender(Protocol):
    """Sends, and never waits."""

    def send(self, frames: Frames) -> bool:
        """Send a message, now or later, and return whether there was room."""
        ...

    def close(self, linger: float = 0.0) -> None:
        """Send nothing more; what was sent may still leave, for so many seconds."""
        ...


class Listener(Protocol):
    """Takes messages from anybody, at its address."""

    @property
    def uri(self) -> str:
        """The address that it got."""
        ...

    def read(self, take: Take) -> None:
        """Begin to take what came, and what comes."""
        ...

    def pause(self) -> None:
        """Take nothing more for now, so that those who send are held up."""
        ...

    def resume(self) -> None:
        """Take messages again, beginning with those that came meanwhile."""
        ...

    def close(self) -> None:
        """Take nothing more."""
        ...


class Subscriber(Protocol):
    """Hears what others publish."""

    def connect(self, uri: str) -> None:
        """Listen there too."""
        ...

    def disconnect(self, uri: str) -> None:
        """Listen there no longer."""
        ...

    def close(self) -> None:
        """Listen nowhere."""
        ...


class Link(Protocol):
    """Takes messages for one other node."""

    def offer(self, message: Message) -> bool:
        """Take a message, and return whether there was room. Raise `PeerGoneError` when the peer is gone."""
        ...

    async def room(self) -> None:
        """Wait until there may be room; return at once if there is, for it may have come since `offer` said no."""
        ...


class PeerLink(Link, Protocol):
    """The way to one node, with how it stands."""

    @property
    def node(self) -> bytes:
        """Whom it leads to."""
        ...

    @property
    def uri(self) -> str:
        """Where that node is."""
        ...

    @property
    def waiting(self) -> int:
        """How many messages wait here."""
        ...

    @property
    def unsent(self) -> Iterable[Message]:
        """The messages that wait here."""
        ...

    @property
    def is_silent(self) -> bool:
        """Return whether the node has not shaken hands yet, or is away."""
        ...


class Peers(Protocol):
    """The links to other nodes."""

    on_sent: OnSent | None  # who is told what left
    on_broken: OnBroken | None  # who is told when a connection broke: what left last may not have arrived
    unacknowledged: int  # messages that left on connections that broke before the peer's system had all of them

    @property
    def links(self) -> Sequence[PeerLink]:
        """The links to all peers."""
        ...

    def link(self, node: bytes, uri: str) -> PeerLink:
        """Return the link to a peer, or raise `PeerGoneError`."""
        ...

    def disconnect(self, node: bytes, linger: float = 0.0) -> Unsent:
        """Forget a peer, and return what never left for it; what did may still get there, for so many seconds."""
        ...

    async def nothing_waits(self) -> None:
        """Wait until everything left, or was given up."""
        ...

    def close(self, linger: float) -> None:
        """Close all links; what was written may still arrive within so many seconds."""
        ...


class Transport(Protocol):
    """Opens ends."""

    def listener(self, address: str, field: str, *, identity: bytes = b"") -> Listener:
        """Take messages at an address; `field` names it when it cannot be had."""
        ...

    def publisher(self, address: str, field: str, capacity: int) -> tuple[Sender, str]:
        """Publish at an address, and tell which that became."""
        ...

    def subscriber(self, take: Take, broke: Callable[[], None] | None = None) -> Subscriber:
        """Hear what others publish, and perhaps when a connection to them broke."""
        ...

    def sender(self, uri: str, capacity: int, *, identity: bytes = b"") -> Sender:
        """Send to the listener at an address, which may be told who sends."""
        ...

    def peers(
        self,
        prepare: Callable[[Message], Message],
        write: Write,
        gave_up: GaveUp,
        clock: Callable[[], float],
    ) -> Peers:
        """Send to nodes.

        Args:
            prepare: Makes a message fit to leave.
            write: Returns the frames of a message for a peer, or none if its lifetime is over.
            gave_up: Is told of a peer that did not shake hands or come back in time, with what never left for it.
            clock: Returns the time by which messages wait.

        """
        ...

    def can_connect(self, uri: str) -> bool:
        """Return whether an address that a peer announced can be connected to."""
        ...

    async def resolve(self, uri: str) -> str:
        """Return an address with its host name resolved, if that is possible."""
        ...

    def close(self) -> None:
        """Open no more."""
        ...
