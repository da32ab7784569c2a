"""A receiver of OTLP/HTTP with the standard library: it reads what it gets by the schema, and fails as it is told."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.export.otlp_lines import Traced, read_request, spans_of


@dataclass(frozen=True)
class Answer:
    """What to answer instead of taking a request; a status of 0 breaks the connection."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    takes: bool = False


Plan = Callable[[int], Answer | None]


@dataclass
class Collector:
    """What it got, and how often it was asked."""

    plan: Plan
    url: str = ""
    requests: int = 0
    refused: int = 0
    spans: list[Traced] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Take a request, or do what the plan says of this one; requests without spans are always taken."""
        assert path == "/v1/traces"
        assert headers["Content-Type"] == "application/json"
        assert headers["Content-Encoding"] == "gzip"
        spans = list(spans_of(read_request(gzip.decompress(body).decode("utf-8"))))
        with self.lock:
            self.headers.append(headers)
            planned = None
            if spans:
                planned = self.plan(self.requests)
                self.requests += 1
            if planned is not None and not planned.takes:
                self.refused += 1
                return planned
            self.spans += spans
        return planned or Answer(200, body=json.dumps({"partialSuccess": {}}).encode())


@contextmanager
def collector(plan: Plan = lambda _: None) -> Iterator[Collector]:
    """Run a receiver on a free port. Its n-th request with spans is answered by the plan: None takes it."""
    receiving = Collector(plan)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                answer = receiving.take(self.path, dict(self.headers), body)
            except Exception as problem:
                receiving.problems.append(repr(problem))
                answer = Answer(400, body=repr(problem).encode())
            if answer.status == 0:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Say nothing of connections that the client broke."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    receiving.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    try:
        yield receiving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
