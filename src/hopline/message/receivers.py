"""Identities of receivers: of nodes, and of the hubs and actors on them."""

from __future__ import annotations

import uuid
from enum import Enum


class ReceiverKind(Enum):
    """The kind of a receiver, which is the first byte of its identity."""

    HUB = b"\x00"
    ACTOR = b"\x01"


_KINDS = {kind.value: kind for kind in ReceiverKind}


def receiver_kind(identity: bytes) -> ReceiverKind | None:
    """Return whether an identity is that of a hub or of an actor; None if neither, as in the first format."""
    return _KINDS.get(identity[:1])


def new_node_identity() -> bytes:
    """Return a new identity for a node: a GUID as text."""
    return str(uuid.uuid4()).encode()


def new_hub_identity() -> bytes:
    """Return a new identity for a message hub."""
    return ReceiverKind.HUB.value + new_node_identity()


def new_actor_identity() -> bytes:
    """Return a new identity for an actor."""
    return ReceiverKind.ACTOR.value + new_node_identity()
