"""`Node.from_config`: the node that `hopline node` runs, with its metrics, from the same files and variables."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hopline import Actor, MessageOutcome, Node, Payload, handler
from hopline.config import ConfigurationError
from hopline.metrics import MetricsError
from hopline.node import CallNext, MiddlewareContext
from tests.network.processes import free_ports
from tests.node.running import on_loop, until


class Ask(Payload):
    number: int


class Told(Payload):
    number: int


class Answering(Actor):
    @handler
    def answer(self, ask: Ask) -> Told:
        return Told(ask.number)


@pytest.fixture
def ports() -> list[int]:
    return free_ports(3)


@pytest.fixture
def file(tmp_path: Path, ports: list[int]) -> Path:
    broadcast, unicast, metrics = ports
    path = tmp_path / "shop.toml"
    path.write_text(
        f"""
[node]
identity = "shop"
embedded = true
rendezvous = [{{ broadcast_uri = "tcp://127.0.0.1:{broadcast}", unicast_uri = "tcp://127.0.0.1:{unicast}" }}]
settings = {{ request_timeout = 7 }}

[metrics]
address = "127.0.0.1:{metrics}"

[capture]
directory = "captures"
"""
    )
    return path


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own endpoint
            return b"hopline_" in answer.read()
    except OSError:
        return False


@on_loop
async def test_a_node_is_what_its_file_says_and_serves_metrics_as_long_as_it_runs(file: Path, ports: list[int]) -> None:
    node = Node.from_config(file, actors=[Answering()])
    assert node.identity == b"shop"
    assert node.settings.request_timeout == 7
    assert node.network is not None
    assert node.network.embedded
    url = f"http://127.0.0.1:{ports[2]}/metrics"
    async with node:
        await until(lambda: node.is_serving)
        assert (await node.hub.send(Ask(3), callback=Told)).number == 3
        assert await asyncio.to_thread(answers, url)
    assert not await asyncio.to_thread(answers, url)
    assert node.capture is not None
    assert Path(node.capture.directory) == file.parent / "captures"
    assert (file.parent / "captures").is_dir()


@on_loop
async def test_what_the_file_cannot_say_is_an_argument(file: Path) -> None:
    log: list[str] = []

    async def note(context: MiddlewareContext, call_next: CallNext) -> Any:
        log.append(f"handles {context.handler}")
        return await call_next()

    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        log.append("opened")
        yield
        log.append("closed")

    outcomes: list[MessageOutcome] = []
    arguments: dict[str, Any] = {"middleware": [note], "lifespan": lifespan, "on_outcome": outcomes.append}
    async with Node.from_config(file, actors=[Answering()], **arguments) as node:
        await node.hub.send(Ask(3), callback=Told)
    assert log == ["opened", "handles answer", "closed"]
    assert len(outcomes) >= 2


@on_loop
async def test_a_port_in_use_is_found_before_the_node_is_announced(file: Path) -> None:
    async with Node.from_config(file):
        second = Node.from_config(file)
        with pytest.raises(MetricsError):
            await second.start()
        assert not second.is_running


def test_the_file_is_found_as_by_the_command_line_and_the_environment_overrides_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPLINE_NODE__IDENTITY", "from the environment")
    monkeypatch.setenv("HOPLINE_CONFIG", str(file))
    assert Node.from_config().identity == b"from the environment"
    monkeypatch.delenv("HOPLINE_CONFIG")
    monkeypatch.chdir(file.parent)
    file.rename(file.parent / "hopline.toml")
    monkeypatch.delenv("HOPLINE_NODE__IDENTITY")
    assert Node.from_config().identity == b"shop"


def test_a_node_class_of_ones_own_stays_one(file: Path) -> None:
    class Shop(Node): ...

    assert isinstance(Shop.from_config(file), Shop)


def test_errors_name_the_file_and_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read as the configuration: No such file"):
        Node.from_config(tmp_path / "nowhere.toml")
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "shop.toml").write_text('[capture]\ndirectory = "taken"\n')
    with pytest.raises(ConfigurationError, match=r"shop\.toml: capture\.directory: expected a directory to record in"):
        Node.from_config(tmp_path / "shop.toml")
