"""What a node tells of itself: to its operator, to metrics, and to whoever asks it over the network."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

import msgspec

from hopline.message import MessageIdentifier
from hopline.node.stats import Stats
from hopline.node.tap import CaptureReport


class ActorReport(msgspec.Struct, frozen=True, kw_only=True):
    """One actor: who it is, what it handles, and how much it has to do."""

    identity: bytes
    name: str
    handles: tuple[MessageIdentifier, ...]
    handlers: tuple[str, ...] = ()  # its methods, in the same order; older nodes do not say
    waiting: int  # messages in its mailbox
    running: int  # handlers under way


class LinkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The way to one peer, as far as something was sent there."""

    node: bytes
    uri: str
    waiting: int  # messages that did not leave yet
    is_silent: bool  # the peer has not shaken hands yet, or is away


class NetworkReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node's part in its network."""

    rendezvous: str  # the server that is followed
    is_joined: bool
    rendezvous_changes: int  # how often another server was followed
    peers: int  # nodes that are known and alive
    published: int  # messages on routes, through the rendezvous server
    told: int  # straight to one node
    heard: int  # from either
    refused_routes: dict[str, int]  # of what others said of routes, by reason
    refused_messages: dict[str, int]  # of the messages that came, by reason
    links: tuple[LinkReport, ...]
    unacknowledged: int = 0  # messages that were sent on connections that broke before the peer's system had them


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node at one moment."""

    node: bytes
    uri: str
    software: str
    uptime: float  # seconds
    stats: Stats
    actors: tuple[ActorReport, ...]
    network: NetworkReport | None = None
    capture: CaptureReport | None = None  # if it has a place to record its traffic


@cache
def software() -> str:
    """Tell which Hopline this is."""
    try:
        return f"hopline {version('hopline')}"
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "hopline"
