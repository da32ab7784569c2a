"""What is known of the nodes, and what follows from it: whom a batch waits for, and which windows are final. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from hopline.pipeline.stream.closing import EVER, NEVER
from hopline.pipeline.stream.state import NodeState

Times = Mapping[str, tuple[int, int]]
"""The first and the last time of each node's new messages, in microseconds since 1970."""


def heard(
    known: Mapping[str, NodeState], times: Times, mentioned: Mapping[str, int], now: float
) -> dict[str, NodeState]:
    """Return what is known of each node after a batch.

    Args:
        known: What was known before.
        times: What the batch has of each node.
        mentioned: When each node was first told of, by itself or by others.
        now: The time of the batch, in seconds since 1970.
    """
    nodes = dict(known)
    for name, (first_us, last_us) in times.items():
        before = nodes.get(name)
        if before is not None:
            first_us = min(first_us, before.first_us)
            last_us = max(last_us, last_us if before.last_us is None else before.last_us)
        nodes[name] = NodeState(heard_s=now, first_us=first_us, last_us=last_us)
    for name, first_us in mentioned.items():
        nodes.setdefault(name, NodeState(heard_s=now, first_us=first_us))
    return nodes


def silent(nodes: Mapping[str, NodeState], now: float, idle_s: float) -> tuple[str, ...]:
    """Return the nodes that have sent nothing for the idle time: nobody waits for them."""
    return tuple(name for name, node in nodes.items() if now - node.heard_s >= idle_s)


def passed(nodes: Mapping[str, NodeState], silent: Collection[str], ahead_us: Mapping[str, int]) -> dict[str, int]:
    """Return the time that each node has passed, by everybody's clock.

    Args:
        nodes: What is known of the nodes.
        silent: Those that are not waited for.
        ahead_us: By how much a node's clock differs, at most, from another one, as far as that is known.
    """

    def passed_by(name: str, node: NodeState) -> int:
        if name in silent:
            return EVER
        if node.last_us is None:
            return NEVER
        return node.last_us - ahead_us.get(name, 0)

    return {name: passed_by(name, node) for name, node in nodes.items()}


def horizon(nodes: Mapping[str, NodeState], silent: Collection[str], first_open_us: int | None, window_us: int) -> int:
    """Return up to when windows are final: no record of what is open, and none that is to come, lies before it.

    Args:
        nodes: What is known of the nodes.
        silent: Those that are not waited for.
        first_open_us: The time of the first record of what is open, if anything is.
        window_us: The length of a window.
    """
    limits = [] if first_open_us is None else [first_open_us]
    limits += [_reached(node) for name, node in nodes.items() if name not in silent]
    reached_us = min(limits) if limits else _last(nodes.values()) + window_us
    return reached_us - reached_us % window_us


def _reached(node: NodeState) -> int:
    return node.first_us if node.last_us is None else node.last_us


def _last(nodes: Iterable[NodeState]) -> int:
    return max((node.last_us for node in nodes if node.last_us is not None), default=0)
