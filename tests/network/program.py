"""A rendezvous server or a node in a process of its own, that does what it is told on its standard input.

It reads one JSON object a line and answers each with one line. Run it as ``python -m tests.network.program``.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    DeliveryError,
    Domain,
    DomainSecurity,
    Network,
    Node,
    NodeSettings,
    Payload,
    RendezvousServer,
    RendezvousSettings,
    WireFormat,
    handler,
)
from hopline.cluster import ClusterSettings, LeaseSettings, RendezvousAddress, SynodSettings
from hopline.rendezvous import RelaySettings
from hopline.security import NoSecurity
from hopline.transport import SocketSettings

Answer = dict[str, Any]
Commands = dict[str, Callable[[Any], Awaitable[Answer]]]


class Work(Payload):
    number: int
    seconds: float = 0.0
    padding: bytes = b""


class Done(Payload):
    number: int
    by: str


class Errand(Payload):
    number: int


class Delegate(Actor):
    """Answers with a request, which somebody else answers."""

    @handler
    def delegate(self, errand: Errand) -> Work:
        return Work(errand.number)


class Worker(Actor):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.count = 0

    @handler
    async def work(self, work: Work) -> Done:
        self.count += 1
        if work.seconds:
            await asyncio.sleep(work.seconds)
        return Done(work.number, self.name)


def security(keys: dict[str, str]) -> DomainSecurity | NoSecurity:
    if not keys:
        return NoSecurity()
    domains = [Domain(name, bytes.fromhex(key), ["Work", "Done"]) for name, key in keys.items()]
    return DomainSecurity(domains, clock=time.time)


async def run_rendezvous(options: Answer) -> None:
    settings = RendezvousSettings(
        address=options.get("address", "tcp://127.0.0.1:0"),
        unicast_address=options.get("unicast_address"),
        partner_address=options.get("partner_address"),
        synod_address=options.get("synod_address"),
        synod=options.get("synod", ()),
        open_without_keys=True,
        relay=RelaySettings(heartbeat_interval=options.get("heartbeat", 0.5)),
        lease=LeaseSettings(**options.get("lease", {})),
        synod_health=SynodSettings(heartbeat_interval=0.5),
    )
    async with RendezvousServer(settings) as server:

        async def look(_: Any) -> Answer:
            counts = server.statistics
            return {
                "leads": server.is_leader,
                "rounds": server.runtime.keeper.statistics.rounds,
                "relayed": counts.relayed,
                "refused": sum(counts.refused.values()),
                "rss": rss(),
            }

        say({"ready": msgspec.to_builtins(server.address)})
        await obey({"look": look})


async def run_node(options: Answer) -> None:
    name = options["name"]
    worker = Worker(name)
    network = Network(
        rendezvous=[RendezvousAddress(**one) for one in options["rendezvous"]],
        address=options.get("address", "tcp://127.0.0.1:0"),
        wire_format=WireFormat(options.get("wire_format", "v5")),
        security=security(options.get("keys", {})),
        open_without_keys=True,
        cluster=ClusterSettings(**options.get("cluster", {})),
        sockets=SocketSettings(**options.get("sockets", {})),
        join_timeout=options.get("join_timeout", 10.0),
    )
    settings = NodeSettings(**options.get("settings", {}))
    actors = [*([worker] if options.get("works", True) else []), *([Delegate()] if options.get("delegates") else [])]
    exporter = InMemorySpanExporter()
    tracer_provider = TracerProvider() if options.get("traced") else None
    if tracer_provider is not None:
        tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    node = Node(*actors, network=network, settings=settings, tracer_provider=tracer_provider)
    async with node:
        membership = node.membership
        assert membership is not None

        async def ask(command: Any) -> Answer:
            return await ask_many(node, **command)

        async def look(_: Any) -> Answer:
            stats = node.stats()
            return {
                "submitted": stats.submitted,
                "received": stats.received,
                "outcomes": {str(key): value for key, value in stats.outcomes.items()},
                "is_balanced": stats.is_balanced,
                "waiting": stats.waiting,
                "promised": stats.promised,
                "worked": worker.count,
                "peers": len(membership.health),
                "joined": membership.follower.is_joined,
                "follows": membership.follower.server.broadcast_uri,
                "traffic": msgspec.to_builtins(membership.traffic),
                "rss": rss(),
            }

        async def errand(_: Any) -> Answer:
            done = await node.hub.send(Errand(1), callback=Done, timeout=20.0)
            return {"by": done.by}

        async def spans(_: Any) -> Answer:
            finished = exporter.get_finished_spans()
            return {"spans": [json.loads(span.to_json(indent=None)) for span in finished]}

        say({"ready": {"identity": node.identity.decode(), "uri": node.uri}})
        await obey({"ask": ask, "look": look, "errand": errand, "spans": spans})


async def ask_many(
    node: Node, count: int, in_flight: int = 100, timeout: float = 5.0, seconds: float = 0.0, padding: int = 0
) -> Answer:
    """Ask for work, and tell how it went: each is answered, or fails with an error that is counted by its name."""
    answered: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    slowest = 0.0
    turns = asyncio.Semaphore(in_flight)

    async def ask(number: int) -> None:
        nonlocal slowest
        async with turns:
            began = time.monotonic()
            try:
                work = Work(number, seconds, bytes(padding))
                done = await node.hub.send(work, callback=Done, timeout=timeout)
                answered[done.by if done.number == number else "wrong answer"] += 1
            except (ActorError, AnswerTimeoutError, DeliveryError) as error:
                failed[f"{type(error).__name__} {getattr(error, 'outcome', '')}".strip()] += 1
            slowest = max(slowest, time.monotonic() - began)

    await asyncio.gather(*(ask(number) for number in range(count)))
    return {"answered": dict(answered), "failed": dict(failed), "slowest": slowest}


def rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def say(answer: Answer) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def obey(commands: Commands) -> None:
    """Do what comes in, side by side, until there is nothing more or the word is to stop."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()

    async def answer(command: Answer) -> None:
        key = command.pop("key")
        say({"key": key, **await commands[command.pop("do")](command)})

    while line := await lines.readline():
        task = asyncio.create_task(answer(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    role, given = sys.argv[1], json.loads(sys.argv[2])
    asyncio.run(run_rendezvous(given) if role == "rendezvous" else run_node(given))
