"""The sections of a configuration and their keys. Most keys are the fields of the settings that they fill in."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any

import msgspec

from hopline.capture.settings import CaptureSettings
from hopline.node import Network, NodeSettings
from hopline.rendezvous import RendezvousSettings
from hopline.security import DEFAULT_CLOCK_SKEW, DEFAULT_REPLAY_CAPACITY, DEFAULT_WINDOW, Profile
from hopline.wire import MacAlgorithm


class DomainSection(msgspec.Struct, frozen=True, kw_only=True):
    """One domain; its keys are in the key file."""

    name: str  # as the key file and every other node of the domain have it
    identities: Sequence[str] = ()  # messages that belong to it, in any version and partition
    profile: Profile = Profile.SEALED  # what is signed; `reference` for domains that have kino nodes
    algorithm: MacAlgorithm = MacAlgorithm.SHA256  # how it is signed
    unsigned: bool | Sequence[str] = False  # the whole domain, or these messages of it, without signatures
    refuse_replays: bool = False  # remember what came, and take nothing twice
    window: float = DEFAULT_WINDOW  # seconds that a message may be under way, where replays are refused
    clock_skew: float = DEFAULT_CLOCK_SKEW  # seconds that clocks may differ, where replays are refused
    replay_capacity: int = DEFAULT_REPLAY_CAPACITY  # messages that are remembered to refuse replays


class SecuritySection(msgspec.Struct, frozen=True, kw_only=True):
    """Signatures of messages."""

    key_file: str | None = None  # the keys of all domains, see `hopline keys`; read again when it changes
    domains: Sequence[DomainSection] = ()  # the first is also that of the protocol's own messages


class CurveSection(msgspec.Struct, frozen=True, kw_only=True):
    """Encryption of every link."""

    network_key_file: str | None = None  # the key pair that all members of the network share
    member_key_file: str | None = None  # the key pair of this member
    admitted: Sequence[str] = ()  # public keys of those who are let in; empty: everybody with the network's key


class MetricsSection(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint for Prometheus."""

    address: str | None = None  # host:port, such as 127.0.0.1:9100; without one nothing is collected


class NodeSection(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a node that are not of its network."""

    identity: str | None = None  # who it is for others: no two nodes may have the same; by default always a new one
    settings: NodeSettings = msgspec.field(default_factory=NodeSettings)


class Key(msgspec.Struct, frozen=True):
    """One key of a section: its type, its default, and the struct that it is a field of."""

    name: str
    type: Any
    default: Any
    owner: type[msgspec.Struct]


Keys = dict[str, Key]

# Fields that are made of other sections, or cannot be set in a file.
_EXCLUDED: dict[type, frozenset[str]] = {
    Network: frozenset({"security", "curve", "limits"}),
    RendezvousSettings: frozenset({"curve"}),
}


def keys_of(*owners: type[msgspec.Struct]) -> Keys:
    """Return the keys of a section that fills in these settings."""
    keys: Keys = {}
    for owner in owners:
        hints = typing.get_type_hints(owner)
        for field in msgspec.structs.fields(owner):
            if field.name not in _EXCLUDED.get(owner, frozenset()):
                keys[field.name] = Key(field.name, hints[field.name], _default(field), owner)
    return keys


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


SECTIONS: dict[str, Keys] = {
    "node": keys_of(NodeSection, Network),
    "rendezvous": keys_of(RendezvousSettings),
    "security": keys_of(SecuritySection),
    "curve": keys_of(CurveSection),
    "metrics": keys_of(MetricsSection),
    "capture": keys_of(CaptureSettings),
}
