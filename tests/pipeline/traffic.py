"""Traffic by hand: what nodes would record of one flow, told as it happens."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hopline.capture.records import LEVEL_EVENTS, Event, Level
from tests.pipeline.rows import Row, message

EXCEPTION, RECEIPT = "KINO.EXCEPTION", "KINO.RCPTCONFIRM"


def kind(identity: str) -> Row:
    """Name a kind as the columns do."""
    return {"identity": identity, "version": "1", "partition": ""}


@dataclass
class Sent:
    """A message on its way: its header as it is just now."""

    header: Row
    home: str = ""

    @property
    def identity(self) -> str:
        return str(self.header["identity"])


@dataclass
class Job:
    """A message before its handler."""

    message: Sent
    node: str
    actor: str
    seq: int


@dataclass
class Traffic:
    """The records of one flow. Times are true ones; each node writes them down by its own clock."""

    flow: str
    level: dict[str, Level] = field(default_factory=dict)
    default_level: Level = Level.FULL
    skew: dict[str, int] = field(default_factory=dict)
    wire_format: str = "V5"
    traced: bool = True
    rows: list[Row] = field(default_factory=list)
    _ids: int = 0

    def record(self, event: str, node: str, what: Sent, at: int, **columns: Any) -> int:
        """Write down an event, if the node records such, and give its number."""
        if event in LEVEL_EVENTS[self.level.get(node, self.default_level)]:
            row = message(event, node, at=at + self.skew.get(node, 0), **what.header | {"seq": at} | columns)
            self.rows.append(row)
        return at

    def message(self, identity: str, **columns: Any) -> Sent:
        """Make a message of the flow."""
        self._ids += 1
        own = zlib.crc32(self.flow.encode()) * 10_000 + self._ids * 100  # each hop counts one on for its bytes
        header = {"flow_id": self.flow, "identity": identity, "message_id": own, "fingerprint": own}
        return Sent(header | {"wire_format": self.wire_format} | columns)

    def ask(self, node: str, identity: str, at: int, wants: Sequence[str], key: int = 1, **columns: Any) -> Sent:
        """Ask for something at a node's hub."""
        has_node = self.wire_format != "FIRST"
        asked = self.message(
            identity,
            callbacks=[kind(one) for one in (*wants, EXCEPTION)],
            callback_receiver=f"hub-{node}",
            callback_receiver_node=node if has_node else "",
            callback_key=key if has_node else 0,
            **columns,
        )
        self.record(Event.SUBMITTED, node, asked, at, local_receiver=f"hub-{node}")
        return asked

    def tell(self, node: str, identity: str, at: int, **columns: Any) -> Sent:
        """Send something that nobody waits behind."""
        told = self.message(identity, **columns)
        self.record(Event.SUBMITTED, node, told, at, local_receiver=f"hub-{node}")
        return told

    def send(self, what: Sent, node: str, peer: str, at: int) -> Sent:
        """Let it leave for another node."""
        hop = {"uri": f"tcp://{node}", "identity": node}
        header = what.header
        routing = [*header.get("routing", []), hop] if self.traced else []
        gone = Sent(header | {"hops": header.get("hops", 0) + 1, "routing": routing})
        gone.header["fingerprint"] = header["fingerprint"] + 1
        gone.header["bytes"] = header.get("bytes", 100) + 10
        self.record(Event.SENT, node, gone, at, peer=peer)
        return gone

    def receive(self, what: Sent, node: str, peer: str, at: int, **columns: Any) -> Sent:
        """Let it arrive."""
        self.record(Event.RECEIVED, node, what, at, peer=peer, **columns)
        return what

    def go(self, what: Sent, node: str, peer: str, sent: int, received: int) -> Sent:
        """Let it cross from one node to another."""
        return self.receive(self.send(what, node, peer, sent), peer, node, received)

    def deliver(self, what: Sent, node: str, actor: str, at: int) -> Job:
        """Put it before an actor."""
        return Job(what, node, actor, self.record(Event.DELIVERED, node, what, at, local_receiver=actor))

    def handled(self, job: Job, at: int, reason: str | None = None) -> None:
        """End its handler."""
        self.record(Event.HANDLED, job.node, job.message, at, local_receiver=job.actor, reason=reason)

    def result(self, job: Job, identity: str, at: int, *, caused: bool = True, **columns: Any) -> Sent:
        """Make what a handler returned part of the flow, by the protocol's rules."""
        incoming = job.message.header
        names = ("callbacks", "callback_receiver", "callback_receiver_node", "callback_key", "routing")
        taken = {name: incoming[name] for name in names if name in incoming}
        made = self.message(identity, **taken | columns)
        if kind(identity) in made.header.get("callbacks", []):
            made.header["receiver"] = made.header["callback_receiver"]
            made.header["receiver_node"] = made.header["callback_receiver_node"]
        is_full = self.level.get(job.node, self.default_level) == Level.FULL
        cause = job.seq if caused and is_full else None
        self.record(Event.SUBMITTED, job.node, made, at, local_receiver=job.actor, cause=cause)
        return made

    def home(self, what: Sent, node: str, at: int, *, is_taken: bool = True) -> None:
        """Give it to the hub that waits, or waited."""
        self.record(Event.DELIVERED, node, what, at, local_receiver=f"hub-{node}")
        if is_taken:
            self.record(Event.RESOLVED, node, what, at + 1, local_receiver=f"hub-{node}")

    def end(self, event: str, what: Sent, node: str, at: int, reason: str = "") -> None:
        """Let it end otherwise."""
        self.record(event, node, what, at, reason=reason)
