"""What a running node reports about itself: its message counts, its actors, its network, its capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopline.actors import ActorHost, handler_map
from hopline.node.report import ActorReport, NodeReport, software
from hopline.node.stats import Stats
from hopline.schemas.fingerprint import fingerprint

if TYPE_CHECKING:
    from hopline.node.running import RunningNode


def stats_of(running: RunningNode) -> Stats:
    """Return the message counts of a node since it started."""
    router = running.router
    counters = router.counters
    unsent = 0 if running.connection is None else running.connection.unsent
    in_mailboxes = sum(host.waiting for host in running.actors.all_hosts)
    return Stats(
        submitted=counters.submitted,
        received=counters.received,
        copied=counters.copied,
        returned=counters.returned,
        outcomes=counters.outcomes(unsent),
        waiting=router.waiting + in_mailboxes + unsent,
        handled=counters.handled,
        handler_errors=counters.handler_errors,
        unexpected=sum(hub.unexpected for hub in running.hubs),
        promised=sum(hub.waiting for hub in running.hubs),
    )


def report_of(running: RunningNode, identity: bytes, uri: str) -> NodeReport:
    """Return the state of a node, with this identity and address."""
    return NodeReport(
        node=identity,
        uri=uri,
        software=software(),
        uptime=running.clock() - running.started_at,
        stats=stats_of(running),
        actors=tuple(_actor_report(host) for host in running.actors.hosts.values()),
        network=running.connection.report() if running.connection is not None else None,
        capture=None if running.recorder is None else running.recorder.report(),
    )


def _actor_report(host: ActorHost) -> ActorReport:
    handlers = handler_map(host.actor)
    return ActorReport(
        identity=host.identity,
        name=host.name,
        handles=tuple(handlers),
        handlers=tuple(definition.method for definition in handlers.values()),
        fingerprints=tuple(_fingerprint_of(definition.content) for definition in handlers.values()),
        waiting=host.waiting,
        running=host.running,
    )


def _fingerprint_of(content: type | None) -> int | None:
    return None if content is None else fingerprint(content)
