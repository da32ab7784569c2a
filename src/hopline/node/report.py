"""Reports on the state of a node, for its operator, for metrics, and for requests over the network."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

import msgspec

from hopline.message import MessageIdentifier
from hopline.node.stats import Stats
from hopline.observers.recorder import CaptureReport


class ActorReport(msgspec.Struct, frozen=True, kw_only=True):
    """One actor: its identity, what it handles, and its load."""

    identity: bytes
    name: str
    handles: tuple[MessageIdentifier, ...]
    handlers: tuple[str, ...] = ()  # its methods, in the same order; older nodes omit them
    fingerprints: tuple[int | None, ...] = ()  # of the payloads, in the same order; older nodes omit them
    waiting: int  # messages in its mailbox
    running: int  # handlers that run


class LinkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The link to one peer."""

    node: bytes
    uri: str
    waiting: int  # messages that have not left
    is_silent: bool  # the handshake is not complete, or the peer is away


class NetworkReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node's connection to its network."""

    rendezvous: str  # the server that is followed
    is_joined: bool
    rendezvous_changes: int  # how often the node changed to another server
    peers: int  # known nodes that are alive
    published: int  # control messages sent through the rendezvous server
    told: int  # control messages sent straight to a node
    heard: int  # control messages received either way
    refused_routes: dict[str, int]  # control messages refused, by reason
    refused_messages: dict[str, int]  # other messages refused, by reason
    links: tuple[LinkReport, ...]
    unacknowledged: int = 0  # messages sent on connections that broke before the peer's system had them


class PeerReport(msgspec.Struct, frozen=True, kw_only=True):
    """Another node, as the node that reports knows it from announcements and heartbeats. Times are in seconds."""

    node: bytes
    uri: str
    domains: tuple[str, ...]  # in which it has been announced, the strongest first
    format: str  # the wire format of messages to it
    known_for: float
    heartbeat_interval: float
    heartbeat_age: float | None  # since its latest heartbeat; None before the first one


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a node at one moment."""

    node: bytes
    uri: str
    software: str
    uptime: float  # seconds
    stats: Stats
    actors: tuple[ActorReport, ...]
    network: NetworkReport | None = None
    capture: CaptureReport | None = None  # if the node was given a directory for it


@cache
def software() -> str:
    """Return the name and version of this software."""
    try:
        return f"hopline {version('hopline')}"
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "hopline"


class StopReport(msgspec.Struct, frozen=True):
    """What could not be finished before a node stopped."""

    failed_messages: int = 0
    cancelled_handlers: int = 0
    failed_promises: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether everything was finished."""
        return not (self.failed_messages or self.cancelled_handlers or self.failed_promises)
