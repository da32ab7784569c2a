"""A client for programs without an event loop: scripts, notebooks, and frameworks that run requests in threads.

Theory of operation. The client's node runs on an event loop in a thread of its own. A call submits a coroutine to that
loop and waits for its result; several threads may call at the same time. A call that is interrupted (Ctrl-C) cancels
its coroutine, so that nothing waits for an answer that nobody wants. When the client is closed, its node stops by its
own rules, calls of other threads that are not answered in time raise `NotRunningError`, and the thread ends.

The lock orders calls and closing: a coroutine is submitted either before the loop was asked to end, which then cancels
it, or never. The thread is a daemon, so that a client that nobody closed does not hold up the end of the process: it is
closed then, and waits for nothing.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from hopline.client import AskOptions, MessageHub, Partition, SendOptions, Stream, Timeout
from hopline.config import read_configuration
from hopline.errors import NotJoinedError
from hopline.message import (
    AnsweredBy,
    AnyPayload,
    ArgumentError,
    Message,
    MessageIdentifier,
    NotRunningError,
    Version,
)
from hopline.node import Node

Answer = TypeVar("Answer", bound=AnyPayload)
First = TypeVar("First", bound=AnyPayload)
Second = TypeVar("Second", bound=AnyPayload)
Result = TypeVar("Result")


def connect(config: str | os.PathLike[str] | None = None, *, node: Node | None = None) -> Client:
    """Join a network from a program without an event loop.

        with hopline.connect() as client:
            greeting = client.ask(Greet("world"))

    Args:
        config: The configuration file, as for `Node.from_config`: its network, its keys and its settings. The client
            listens on any free port, and has an identity of its own.
        node: A node with arguments of its own, instead of a configuration. It may have actors.

    Raises:
        NotJoinedError: No rendezvous server answers.
        ConfigurationError: For the first value of the configuration that cannot be used.
    """
    if node is None:
        configuration = read_configuration(None if config is None else Path(config), os.environ)
        node = Node(network=configuration.client_network(), settings=configuration.settings)
    elif config is not None:
        raise ArgumentError("connect", "a configuration or a node", "both")
    return Client(node)


class Client:
    """A node on a loop of its own thread; see `connect`. Its methods block, and may be called from several threads."""

    def __init__(self, node: Node) -> None:
        if node.is_running:
            raise ArgumentError("node", "a Node that is not running", node)
        self._node = node
        self._lock = threading.Lock()
        self._is_open = True
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._closing: asyncio.Future[float | None]
        self._thread = threading.Thread(target=self._run, name="hopline client", daemon=True)
        self._thread.start()
        try:
            self._loop = self._started.result()
        except BaseException:  # also Ctrl-C
            self._started.cancel()
            raise
        atexit.register(self.close, 0.0)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():  # as a handler does that raises SystemExit
                raise
            self._started.set_exception(error)
        finally:
            with self._lock:
                self._is_open = False

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._closing = loop.create_future()
        drain_timeout: float | None = 0.0
        try:
            await self._node.start()
            self._require_joined()
            if self._started.set_running_or_notify_cancel():
                self._started.set_result(loop)
                drain_timeout = await self._closing
        finally:
            await self._node.stop(drain_timeout)

    def _require_joined(self) -> None:
        network = self._node.network
        if network is None or self._node.is_joined:
            return
        servers = ", ".join(str(server) for server in network.servers)
        remedy = "start one with `hopline rendezvous`, or name another in the configuration"
        raise NotJoinedError(f"no rendezvous server answers at {servers}; {remedy}")

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, coroutine: Callable[[MessageHub], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine on the loop of the node, and wait for its result."""
        if threading.current_thread() is self._thread:
            raise ArgumentError("client", "a call from outside its node, where `await node.hub...` does it", "its loop")
        with self._lock:
            if not self._is_open:
                raise NotRunningError("the client is closed: use it inside `with hopline.connect(...) as client:`")
            future = asyncio.run_coroutine_threadsafe(coroutine(self._node.hub), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise NotRunningError("the client was closed before the answer came") from None
        except BaseException:  # also Ctrl-C
            future.cancel()
            raise

    @overload
    def ask(self, content: AnsweredBy[Answer], callback: None = None, **options: Unpack[AskOptions]) -> Answer: ...
    @overload
    def ask(self, content: AnyPayload, callback: type[Answer], **options: Unpack[AskOptions]) -> Answer: ...
    @overload
    def ask(self, content: AnyPayload, callback: MessageIdentifier, **options: Unpack[AskOptions]) -> Message: ...
    @overload
    def ask(
        self, content: AnyPayload, callback: tuple[type[First], type[Second]], **options: Unpack[AskOptions]
    ) -> First | Second: ...
    @overload
    def ask(
        self,
        content: AnyPayload,
        callback: Sequence[type[AnyPayload] | MessageIdentifier],
        **options: Unpack[AskOptions],
    ) -> Any: ...
    def ask(self, content: Any, callback: Any = None, **options: Unpack[AskOptions]) -> Any:
        """Send a request, and return its answer. The options are those of `MessageHub.ask`: `timeout`, `retry`, ...

        Raises:
            NotRunningError: The client is closed, or was before the answer came.
        """
        return self._call(lambda hub: hub.ask(content, callback, **options))

    def send(self, content: AnyPayload, **options: Unpack[SendOptions]) -> None:
        """Send a payload or message, and wait until an actor has received it; see `MessageHub.send`."""
        self._call(lambda hub: hub.send(content, **options))

    def send_one_way(self, content: AnyPayload, *, partition: Partition = None, version: Version | None = None) -> None:
        """Send without waiting for an answer. Wait only while the receiver is full."""
        self._call(lambda hub: hub.send_one_way(content, partition=partition, version=version))

    def broadcast(self, content: AnyPayload, *, partition: Partition = None, version: Version | None = None) -> None:
        """Send to every actor that handles it, on every node, without waiting for an answer."""
        self._call(lambda hub: hub.broadcast(content, partition=partition, version=version))

    @overload
    def stream(
        self, content: AnsweredBy[Answer], *, timeout: Timeout = None, limit: int | None = None
    ) -> Iterator[Answer]: ...
    @overload
    def stream(
        self, content: AnyPayload, *, callback: type[Answer], timeout: Timeout = None, limit: int | None = None
    ) -> Iterator[Answer]: ...
    @overload
    def stream(
        self, content: AnyPayload, *, callback: MessageIdentifier, timeout: Timeout = None, limit: int | None = None
    ) -> Iterator[Message]: ...
    @overload
    def stream(
        self,
        content: AnyPayload,
        *,
        callback: Sequence[type[AnyPayload] | MessageIdentifier],
        timeout: Timeout = None,
        limit: int | None = None,
    ) -> Iterator[Any]: ...
    def stream(
        self, content: Any, *, callback: Any = None, timeout: Timeout = None, limit: int | None = None
    ) -> Iterator[Any]:
        """Broadcast, and yield the answers as they come; see `MessageHub.stream`."""

        async def open_stream(hub: MessageHub) -> Stream[Any]:
            stream: Stream[Any] = hub.stream(content, callback=callback, timeout=timeout, limit=limit)
            return stream

        async def read(_: MessageHub) -> Any:
            return await anext(stream, _END)

        async def close(_: MessageHub) -> None:
            stream.close()

        stream = self._call(open_stream)
        try:
            while (answer := self._call(read)) is not _END:
                yield answer
        finally:
            with suppress(NotRunningError):  # closed meanwhile, with all that waited
                self._call(close)

    # -- closing -------------------------------------------------------------------------------------------------------

    def close(self, drain_timeout: float | None = None) -> None:
        """Stop the node, and end its thread. Does nothing if the client is closed.

        Args:
            drain_timeout: Seconds to wait for what is under way, as for `Node.stop`.
        """
        if threading.current_thread() is self._thread:
            raise ArgumentError("close", "a call from outside the client's node", "a call from its loop")
        with self._lock:
            was_open, self._is_open = self._is_open, False
            if was_open:
                self._loop.call_soon_threadsafe(self._closing.set_result, drain_timeout)
        if was_open:
            atexit.unregister(self.close)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error there is no reason to wait for what is under way.
        self.close(0.0 if kind is not None else None)


_END = object()
