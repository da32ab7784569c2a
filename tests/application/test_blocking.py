"""`hopline.connect`: a client for programs without an event loop, used from one thread or several."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hopline
from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    DeliveryError,
    MessageIdentifier,
    Network,
    Node,
    NodeSettings,
    NotRunningError,
    Payload,
    Request,
    Retry,
    from_message,
    handler,
)
from hopline.application import Client
from hopline.cluster import RendezvousAddress
from hopline.errors import NotJoinedError, StartError
from tests.network.processes import LONGEST, ROOT, free_ports


class Ask(Request["Told"]):
    number: int


class Told(Payload):
    number: int


class Never(Payload):
    pass


class Answering(Actor):
    def __init__(self) -> None:
        self.seen: list[int] = []
        self.has_begun = threading.Event()
        self.has_ended = threading.Event()

    @handler
    def answer(self, ask: Ask) -> Told:
        if ask.number < 0:
            raise ValueError("below zero")
        self.seen.append(ask.number)
        return Told(ask.number + 1)

    @handler
    async def wait(self, _: Never) -> Told:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.has_ended.set()
        return Told(0)


@pytest.fixture
def actor() -> Answering:
    return Answering()


@pytest.fixture
def client(actor: Answering) -> Iterator[Client]:
    with hopline.connect(node=Node(actor, settings=NodeSettings(drain_timeout=0.1))) as client:
        yield client


def test_a_client_sends_without_an_event_loop(client: Client, actor: Answering) -> None:
    assert client.ask(Ask(1)) == Told(2)
    client.send(Ask(2))
    client.send_one_way(Ask(3))
    client.broadcast(Ask(4))
    assert client.ask(Ask(5), timeout=LONGEST) == Told(6)
    assert actor.seen == [1, 2, 3, 4, 5]


def test_the_arguments_of_ask_are_those_of_the_hub(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="hopline")
    message = client.ask(Ask(1), MessageIdentifier(b"Told"))
    assert from_message(message, Told) == Told(2)
    assert client.ask(Ask(1), (Told, Never)) == Told(2)
    with pytest.raises(DeliveryError, match="unroutable: Ask/1/north"):
        client.ask(Ask(1), partition="north")
    retry = Retry(attempts=3, backoff=0.001, on=(ActorError,))
    with pytest.raises(ActorError):
        client.ask(Ask(-1), retry=retry)


def test_a_stream_of_answers_is_read_by_a_loop(client: Client) -> None:
    assert list(client.stream(Ask(1), timeout=LONGEST, limit=1)) == [Told(2)]
    assert next(iter(client.stream(Ask(2), timeout=LONGEST))) == Told(3)  # and given up


def test_several_threads_use_one_client(client: Client) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda number: client.ask(Ask(number)), range(200)))
    assert answers == [Told(number + 1) for number in range(200)]


def test_a_client_works_beside_a_running_event_loop(client: Client) -> None:
    async def as_in_a_notebook() -> Told:
        return client.ask(Ask(1))

    assert asyncio.run(as_in_a_notebook()) == Told(2)


def test_errors_are_those_of_the_hub(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="hopline")
    with pytest.raises(ActorError, match="ValueError: below zero"):
        client.ask(Ask(-1))
    with pytest.raises(AnswerTimeoutError):
        client.ask(Never(), Told, timeout=0.01)
    with pytest.raises(DeliveryError, match="unroutable"):
        client.ask(Told(1), Ask)


def test_a_closed_client_says_so(actor: Answering) -> None:
    with hopline.connect(node=Node(actor)) as client:
        stream = client.stream(Ask(1), timeout=LONGEST)
        next(stream)
    for use in (lambda: client.send(Ask(1)), lambda: client.broadcast(Ask(1)), lambda: next(stream)):
        with pytest.raises(NotRunningError, match="the client is closed"):
            use()
    client.close()  # does nothing


def test_closing_ends_the_calls_of_other_threads_and_the_thread(actor: Answering) -> None:
    client = hopline.connect(node=Node(actor))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.ask, Never(), Told)
        assert actor.has_begun.wait(LONGEST)
        client.close(drain_timeout=0.0)
        with pytest.raises(Exception, match=r"stopped|closed"):
            waiting.result(LONGEST)
    assert "hopline client" not in [thread.name for thread in threading.enumerate()]


def test_an_error_in_the_block_does_not_wait_for_what_is_under_way(actor: Answering) -> None:
    def fail(client: Client) -> None:
        client.send(Never())
        assert actor.has_begun.wait(LONGEST)
        raise KeyError("of the block")

    with pytest.raises(KeyError, match="of the block"), hopline.connect(node=Node(actor)) as client:
        fail(client)
    assert actor.has_ended.is_set()


def test_a_start_that_fails_is_raised_here() -> None:
    class Failing(Actor):
        async def on_start(self, node: Node) -> None:
            raise ConnectionError("no database")

    with pytest.raises(StartError, match="no database"):
        hopline.connect(node=Node(Failing()))
    assert "hopline client" not in [thread.name for thread in threading.enumerate()]


def test_a_call_from_the_clients_own_loop_is_refused() -> None:
    refused: list[ArgumentError] = []

    class Calling(Actor):
        @handler
        def call(self, _: Never) -> Told:
            for use in (lambda: calling.ask(Ask(1)), lambda: calling.close()):
                with pytest.raises(ArgumentError) as caught:
                    use()
                refused.append(caught.value)
            return Told(0)

    with hopline.connect(node=Node(Calling(), Answering())) as calling:
        calling.ask(Never(), Told)
    assert ["outside" in str(error) for error in refused] == [True, True]


def test_a_node_or_a_configuration_and_a_node_that_does_not_run() -> None:
    with pytest.raises(ArgumentError, match="a configuration or a node"):
        hopline.connect("hopline.toml", node=Node())
    with hopline.connect(node=Node()) as client, pytest.raises(ArgumentError, match="a Node that is not running"):
        hopline.connect(node=client._node)


def test_a_network_without_a_rendezvous_server_is_an_error_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="hopline")
    (port,) = free_ports(1)
    network = Network(rendezvous=[f"tcp://127.0.0.1:{port}"], join_timeout=0.05)
    with pytest.raises(NotJoinedError, match=f"no rendezvous server answers at tcp://127.0.0.1:{port}.*start one with"):
        hopline.connect(node=Node(network=network))


def test_a_client_joins_the_network_of_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broadcast, unicast = (f"tcp://127.0.0.1:{port}" for port in free_ports(2))
    server = RendezvousAddress(broadcast, unicast)
    file = tmp_path / "shop.toml"
    rendezvous = f'[{{ broadcast_uri = "{broadcast}", unicast_uri = "{unicast}" }}]'
    file.write_text(f'[node]\nidentity = "shop"\nembedded = true\nrendezvous = {rendezvous}\n')
    with hopline.connect(node=Node(Answering(), network=Network(rendezvous=[server], embedded=True))):
        with hopline.connect(file) as client:  # the identity is the service's, which it does not take
            assert client.ask(Ask(1), timeout=LONGEST) == Told(2)
        monkeypatch.setenv("HOPLINE_CONFIG", str(file))
        with hopline.connect() as client:
            assert client.ask(Ask(1), timeout=LONGEST) == Told(2)


SCRIPT = """
import sys
from tests.application.test_blocking import *

client = hopline.connect(node=Node(Answering()))
try:
    print(client.ask(Ask(1)), flush=True)
    if "wait" in sys.argv:
        client.ask(Never(), Told)
except KeyboardInterrupt:
    print(client.ask(Ask(2)), flush=True)
    raise
print("end", flush=True)
"""


def script(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_script_that_forgets_to_close_ends() -> None:
    with script() as process:
        output, _ = process.communicate(timeout=LONGEST)
    assert (process.returncode, output) == (0, "Told(number=2)\nend\n")


def test_ctrl_c_ends_a_call_and_leaves_the_client_usable() -> None:
    with script("wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "Told(number=2)\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LONGEST)
    assert "Told(number=3)\n" in output
    assert "\nKeyboardInterrupt\n" in output
