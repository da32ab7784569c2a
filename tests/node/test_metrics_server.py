"""The endpoint for metrics and probes: who asks is answered, who does not is sent away."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hopline import Actor, Network, Node, Payload, handler
from hopline.cluster import RendezvousAddress
from hopline.metrics import MetricsServer, node_readiness, rendezvous_readiness
from hopline.metrics import server as metrics_server
from hopline.rendezvous import RendezvousServer, RendezvousSettings
from tests.network.processes import free_addresses
from tests.node.running import on_loop, until


class One(Collector):
    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("one", "One.", value=1)


def get(uri: str) -> str:
    with urllib.request.urlopen(uri, timeout=30) as answer:  # noqa: S310 - our own server
        text: str = answer.read().decode()
    return text


def serving() -> set[threading.Thread]:
    """Return the threads that have a connection each, of this server or another in this process."""
    return {thread for thread in threading.enumerate() if "process_request" in thread.name}


@on_loop
async def test_connections_that_ask_for_nothing_are_closed(capfd: pytest.CaptureFixture[str]) -> None:
    others = serving()
    async with MetricsServer(One(), "127.0.0.1", 0, idle_time=1.0) as server:
        address = urlsplit(server.uri)
        idle = [socket.create_connection((address.hostname, address.port)) for _ in range(20)]
        idle[0].sendall(b"GET /metr")  # not even this one
        try:
            for connection in idle:
                connection.settimeout(30)
                assert await asyncio.to_thread(connection.recv, 1) == b""
        finally:
            for connection in idle:
                connection.close()
        await until(lambda: serving() <= others)
        assert "one 1.0" in await asyncio.to_thread(get, server.uri)
    assert capfd.readouterr().err == ""


@on_loop
async def test_it_is_there_for_the_other_kind_of_addresses_too() -> None:
    async with MetricsServer(One(), "::1", 0) as server:
        assert "one 1.0" in await asyncio.to_thread(get, server.uri)


def page_now(server: MetricsServer, path: str) -> tuple[int, str]:
    """Return the status and the text of a page."""
    try:
        return 200, get(urljoin(server.uri, path))
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def page(server: MetricsServer, path: str) -> tuple[int, str]:
    """Return the status and the text of a page, while the loop goes on."""
    return await asyncio.to_thread(page_now, server, path)


@on_loop
async def test_every_page_but_three_is_not_found() -> None:
    async with MetricsServer(One(), "127.0.0.1", 0) as server:
        assert (await page(server, "/metrics"))[0] == 200
        assert await page(server, "/health") == (200, "ok\n")
        assert await page(server, "/ready") == (200, "ok\n")
        for path in ("/", "/metric", "/metrics/1", "/favicon.ico", "/health/x"):
            assert await page(server, path) == (404, "not found: try /metrics, /health or /ready\n")


@on_loop
async def test_what_is_not_ready_says_why() -> None:
    async with MetricsServer(One(), "127.0.0.1", 0, readiness=lambda: "not yet") as server:
        assert await page(server, "/ready") == (503, "not yet\n")
        assert await page(server, "/health") == (200, "ok\n")


@on_loop
async def test_a_loop_that_does_not_answer_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "_LOOP_TIMEOUT", 0.1)
    async with MetricsServer(One(), "127.0.0.1", 0) as server:
        with ThreadPoolExecutor() as threads:  # which holds the loop until the threads are done, as a handler might
            pages = [threads.submit(page_now, server, path) for path in ("/health", "/ready", "/metrics")]
        statuses = [page.result()[0] for page in pages]
        assert statuses == [503, 503, 503]
        assert await page(server, "/health") == (200, "ok\n")


class Wait(Payload):
    pass


class Waiter(Actor):
    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    @handler
    async def wait(self, request: Wait) -> None:
        await self.may_end.wait()


@on_loop
async def test_a_node_is_ready_when_its_announcements_were_relayed_and_until_it_stops() -> None:
    broadcast, unicast, partner = free_addresses(3)
    actor = Waiter()
    network = Network(rendezvous=[RendezvousAddress(broadcast, unicast)], join_timeout=0.1)
    node = Node(actor, network=network)
    why_not = node_readiness(node)
    assert why_not() == "the node has not started"
    async with node:
        assert why_not() == "no rendezvous server is heard"
        settings = RendezvousSettings(address=broadcast, unicast_address=unicast, partner_address=partner)
        server = RendezvousServer(settings)
        assert rendezvous_readiness(server)() == "the server has not started"
        async with server:
            assert rendezvous_readiness(server)() == ""
            await until(lambda: why_not() == "")
            node.add(Waiter())
            assert why_not() == "no rendezvous server has relayed all announcements of this node yet"
            await until(lambda: why_not() == "")
            await node.hub.send_one_way(Wait())
            await until(lambda: any(host.running for host in node.hosts))
            stopping = asyncio.ensure_future(node.stop())
            await until(lambda: why_not() == "the node is stopping")
            for waiter in (actor, *node.actors):
                assert isinstance(waiter, Waiter)
                waiter.may_end.set()
            await stopping
            assert why_not() == "the node has not started"
    assert node_readiness(Node())() == "the node has not started"
    async with Node() as alone:
        assert node_readiness(alone)() == ""
