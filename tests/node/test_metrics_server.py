"""The endpoint for metrics: who asks is answered, who does not is sent away."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.request
from collections.abc import Iterable
from urllib.parse import urlsplit

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hopline.metrics import MetricsServer
from tests.node.running import on_loop, until


class One(Collector):
    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("one", "One.", value=1)


def get(uri: str) -> str:
    with urllib.request.urlopen(uri, timeout=5) as answer:  # noqa: S310 - our own server
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
                connection.settimeout(5)
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
