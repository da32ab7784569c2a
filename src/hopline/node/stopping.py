"""How a node stops: it finishes what is under way, fails the rest, leaves its network, and releases what it holds.

Theory of operation. First the node drains, for a limited time: its actors are withdrawn from the network, so that other
nodes send elsewhere, while it goes on handling, sending and receiving until nothing waits or runs. Then it ends:

1. What waits for a route or for room fails, and so does what is in the mailboxes. Handlers that run are cancelled.
2. Actors run their `on_stop`. What they send still leaves.
3. What these last handlers sent, and the reports about it, fail; promises that nobody can answer any more fail.
4. The node leaves its network, closes its capture, and leaves its lifespan.

Every step is taken even if one before it has failed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from hopline.actors import flow_log
from hopline.message import NotRunningError
from hopline.node.report import StopReport
from hopline.node.settings import NodeSettings

if TYPE_CHECKING:
    from hopline.node.running import RunningNode

log = flow_log("hopline.node")


async def drain(running: RunningNode, seconds: float) -> None:
    """Wait until everything that is under way is finished, for so many seconds at most."""
    connection = running.connection
    if connection is not None and seconds > 0:  # else the goodbye follows at once, and withdraws everything
        connection.withdraw_actors()
    try:
        async with asyncio.timeout(seconds):
            if connection is not None:
                await connection.withdrawn()
            await running.idle()
            if connection is not None:
                await connection.flushed()
    except TimeoutError:
        pass


async def end(running: RunningNode, settings: NodeSettings) -> StopReport:
    """Fail what is not finished, and end all parts of the node. Return what could not be finished."""
    report = StopReport()
    try:
        try:
            report = await _fail_the_rest(running, settings)
        finally:
            report = await _leave_network(running, report)
            await _release(running)
    finally:
        running.deadlines.close()
        running.threads.shutdown(wait=False, cancel_futures=True)
        if running.dead_letters is not None:
            running.dead_letters.hand_over()
        if not report.is_clean:
            log.warning(
                "the node stopped with %d messages failed, %d handlers cancelled, %d requests unanswered",
                report.failed_messages,
                report.cancelled_handlers,
                report.failed_promises,
            )
    return report


async def _fail_the_rest(running: RunningNode, settings: NodeSettings) -> StopReport:
    router = running.router
    failed = router.fail_pending()
    hosts = running.actors.all_hosts
    for host in hosts:
        unhandled = host.close()
        failed += len(unhandled)
        router.close(host.identity, unhandled)
    cancelled = sum(await asyncio.gather(*(host.stop(settings.cancel_timeout) for host in hosts)))
    await _stop_actors(running, settings.stop_timeout)
    while pending := router.fail_pending():  # what the last handlers sent, and the reports about it
        failed += pending
    error = NotRunningError("the node stopped before the answer came")
    return StopReport(failed, cancelled, sum(hub.close(error) for hub in running.hubs))


async def _stop_actors(running: RunningNode, seconds: float) -> None:
    """Stop the actors, after their last handler. What they send on this occasion still leaves."""
    may_have_sent = await running.actors.stop_all()
    if may_have_sent and running.connection is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await running.connection.flushed()


async def _leave_network(running: RunningNode, report: StopReport) -> StopReport:
    """Leave the network. Return the report with the messages that never left."""
    if running.connection is None:
        return report
    counters = running.router.counters
    returned = counters.returned
    running.connection.close()
    never_left = counters.returned - returned
    await running.connection.gone()
    return msgspec.structs.replace(report, failed_messages=report.failed_messages + never_left)


async def _release(running: RunningNode) -> None:
    try:
        if running.recorder is not None:
            await running.recorder.close()
    finally:
        if running.held is not None:
            await running.held.leave()
