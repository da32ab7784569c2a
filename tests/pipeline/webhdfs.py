"""A small WebHDFS server over a folder: storage that is no path of this machine, and that can be made to fail.

Hadoop's own client, which comes with pyspark, reads and writes `webhdfs://` through it, and so does fsspec. It answers
without a Content-Type: Hadoop's client takes any that it does not expect for an error.

What is asked for can be watched, held up or refused: `before` is called ahead of every operation. An `OSError` that it
raises is the answer; a file that was being written is then left cut in half, as a full disk leaves it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_PREFIX = "/webhdfs/v1/"
_JAVA = {
    "FileNotFoundException": "java.io.FileNotFoundException",
    "FileAlreadyExistsException": "org.apache.hadoop.fs.FileAlreadyExistsException",
    "IOException": "java.io.IOException",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that is asked of the storage, by the name that WebHDFS has for it."""

    name: str
    path: str  # below the folder
    size: int = 0  # of what is written


Watch = Callable[[Operation], None]


@contextmanager
def webhdfs(folder: Path, before: Watch = lambda _: None) -> Iterator[str]:
    """Serve a folder, and return its URI."""

    class Handler(_Handler):
        root = folder
        watch = staticmethod(before)
        changing = Lock()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"webhdfs://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    root: Path
    watch: Watch
    changing: Lock
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    query: dict[str, str]
    path_below: str
    file: Path

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self.query = {name.lower(): values[0] for name, values in parse_qs(url.query).items()}
        self.path_below = unquote(url.path).removeprefix(_PREFIX).strip("/")
        self.file = self.root / self.path_below
        operation = self.query["op"].upper()
        content = self._content()
        try:
            if operation in ("OPEN", "CREATE") and "data" not in self.query:
                self._redirect(f"http://{self.headers['Host']}{url.path}?{url.query}&data=true")
                return
            try:
                self.watch(Operation(operation, self.path_below, len(content)))
            except OSError:
                if operation == "CREATE":
                    self._store(content[: len(content) // 2])
                raise
            getattr(self, f"_{operation.lower()}")(*([content] if operation == "CREATE" else []))
        except FileNotFoundError as problem:
            self._fail(404, "FileNotFoundException", f"File does not exist: /{problem.filename}")
        except FileExistsError:
            self._fail(403, "FileAlreadyExistsException", f"/{self.path_below} exists")
        except OSError as problem:
            self._fail(403, "IOException", problem.strerror or str(problem))

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _content(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _getfilestatus(self) -> None:
        self._send_json({"FileStatus": _status(self.file)})

    def _liststatus(self) -> None:
        entries = sorted(self.file.iterdir()) if self.file.is_dir() else []
        statuses = [_status(entry, entry.name) for entry in entries if entry.exists()]
        self._send_json({"FileStatuses": {"FileStatus": statuses if self.file.is_dir() else [_status(self.file)]}})

    def _open(self) -> None:
        content = self.file.read_bytes()
        start = int(self.query.get("offset", 0))
        self._send(200, content[start : start + int(self.query.get("length", len(content)))])

    def _create(self, content: bytes) -> None:
        if self.file.exists() and self.query.get("overwrite", "true") != "true":
            raise FileExistsError
        self._store(content)
        self._send(201)

    def _store(self, content: bytes) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(content)

    def _mkdirs(self) -> None:
        self.file.mkdir(parents=True, exist_ok=True)
        self._send_json({"boolean": True})

    def _rename(self) -> None:
        with self.changing:
            target = self.root / self.query["destination"].lstrip("/")
            if target.is_dir():
                target /= self.file.name
            possible = self.file.exists() and target.parent.is_dir() and not target.exists()
            if possible:
                self.file.rename(target)
        self._send_json({"boolean": possible})

    def _delete(self) -> None:
        with self.changing:
            existed = self.file.exists()
            if self.file.is_dir():
                shutil.rmtree(self.file)
            elif existed:
                self.file.unlink()
        self._send_json({"boolean": existed})

    def _getfileblocklocations(self) -> None:
        size = self.file.stat().st_size
        block: dict[str, object] = {
            "hosts": ["127.0.0.1"],
            "names": ["127.0.0.1:1"],
            "topologyPaths": ["/rack/127.0.0.1:1"],
        }
        block |= {"cachedHosts": [], "corrupt": False, "length": size, "offset": 0, "storageTypes": ["DISK"]}
        self._send_json({"BlockLocations": {"BlockLocation": [block]}})

    def _getserverdefaults(self) -> None:
        defaults: dict[str, object] = {
            "replication": 1,
            "encryptDataTransfer": False,
            "defaultStoragePolicyId": 7,
            "trashInterval": 0,
        }
        defaults |= {"writePacketSize": 65536, "fileBufferSize": 4096, "checksumType": 2, "bytesPerChecksum": 512}
        self._send_json({"FsServerDefaults": defaults | {"blockSize": 134217728, "keyProviderUri": ""}})

    def _gethomedirectory(self) -> None:
        self._send_json({"Path": "/user/hopline"})

    def _setpermission(self) -> None:
        self._send(200)

    _settimes = _setowner = _setpermission

    def _fail(self, code: int, exception: str, message: str) -> None:
        error = {"exception": exception, "javaClassName": _JAVA[exception], "message": message}
        self._send_json({"RemoteException": error}, code)

    def _redirect(self, location: str) -> None:
        self._send(307, location=location)

    def _send_json(self, document: object, code: int = 200) -> None:
        self._send(code, json.dumps(document).encode())

    def _send(self, code: int, content: bytes = b"", *, location: str | None = None) -> None:
        self.send_response(code)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def _status(path: Path, name: str = "") -> dict[str, object]:
    found = path.stat()
    is_folder = path.is_dir()
    return {
        "pathSuffix": name,
        "type": "DIRECTORY" if is_folder else "FILE",
        "length": 0 if is_folder else found.st_size,
        "modificationTime": int(found.st_mtime * 1000),
        "accessTime": int(found.st_atime * 1000),
        "blockSize": 0 if is_folder else 134217728,
        "replication": 0 if is_folder else 1,
        "permission": "755" if is_folder else "644",
        "owner": "hopline",
        "group": "hopline",
        "childrenNum": 0,
        "fileId": found.st_ino,
        "storagePolicy": 0,
    }
