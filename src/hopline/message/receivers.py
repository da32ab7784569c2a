"""Who can get a message: nodes, and the hubs and actors on them, each by an identity of its own."""

from __future__ import annotations

import uuid
from enum import Enum


class ReceiverKind(Enum):
    """What lives behind a receiver identity. Its first byte is the only thing that tells."""

    HUB = b"\x00"
    ACTOR = b"\x01"


_KINDS = {kind.value: kind for kind in ReceiverKind}


def receiver_kind(identity: bytes) -> ReceiverKind | None:
    """Tell a hub from an actor; None for what is neither, such as a receiver of the first format."""
    return _KINDS.get(identity[:1])


def new_node_identity() -> bytes:
    """Make the identity of a node: a GUID as text."""
    return str(uuid.uuid4()).encode()


def new_hub_identity() -> bytes:
    """Make the identity of a message hub."""
    return ReceiverKind.HUB.value + new_node_identity()


def new_actor_identity() -> bytes:
    """Make the identity of an actor."""
    return ReceiverKind.ACTOR.value + new_node_identity()
