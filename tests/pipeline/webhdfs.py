"""A small WebHDFS server over a folder: lists, tells the status of files, and reads ranges of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

_PREFIX = "/webhdfs/v1/"


@contextmanager
def webhdfs(folder: Path) -> Iterator[str]:
    """Serve a folder, and return its URI."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            path = folder / unquote(url.path).removeprefix(_PREFIX)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if not path.exists():
                error = {"exception": "FileNotFoundException", "message": f"no {path.name}"}
                self._send(404, _json({"RemoteException": error}))
            elif query["op"].upper() == "LISTSTATUS":
                entries = path.iterdir() if path.is_dir() else [path]
                statuses = [_status(entry, entry.name if path.is_dir() else "") for entry in sorted(entries)]
                self._send(200, _json({"FileStatuses": {"FileStatus": statuses}}))
            elif query["op"].upper() == "GETFILESTATUS":
                self._send(200, _json({"FileStatus": _status(path, "")}))
            else:
                start = int(query.get("offset", 0))
                content = path.read_bytes()
                self._send(200, content[start : start + int(query.get("length", len(content)))])

        def _send(self, code: int, content: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"webhdfs://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _status(path: Path, name: str) -> dict[str, object]:
    kind = "DIRECTORY" if path.is_dir() else "FILE"
    return {"pathSuffix": name, "type": kind, "length": 0 if path.is_dir() else path.stat().st_size}


def _json(document: object) -> bytes:
    return json.dumps(document).encode()
