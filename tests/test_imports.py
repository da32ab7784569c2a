"""Who may import what: `make lint` checks the arrows between the packages, this the rest of the design's table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# Everything that a package may import besides itself. What is pure has no sockets, files, threads or clocks here.
PURE = {
    "__future__",
    "bisect",
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "hmac",
    "itertools",
    "operator",
    "re",
    "struct",
    "typing",
    "hopline.checks",
    "hopline.errors",
}
ALLOWED = {
    "hopline.actors": PURE
    | {"asyncio", "concurrent", "contextlib", "contextvars", "inspect", "logging", "msgspec", "sys", "traceback"}
    | {"types", "hopline.message", "hopline.routing"},
    "hopline.application": PURE
    | {"asyncio", "atexit", "concurrent", "contextlib", "os", "pathlib", "threading", "types", "opentelemetry"}
    | {"hopline.actors", "hopline.client", "hopline.config", "hopline.message", "hopline.metrics", "hopline.node"}
    | {"hopline.observers.dead_letters", "hopline.routing"},
    "hopline.capture": PURE
    | {
        "contextlib",
        "fcntl",
        "glob",
        "json",
        "logging",
        "mmap",
        "msgspec",
        "os",
        "pathlib",
        "pyarrow",
        "queue",
        "threading",
    }
    | {"time", "zlib"}
    | {"hopline.message", "hopline.wire"},
    "hopline.client": PURE
    | {"asyncio", "math", "msgspec", "threading", "types"}
    | {"hopline.message", "hopline.routing"},
    "hopline.cluster": PURE
    | {"google", "logging", "math", "msgspec", "random"}
    | {"hopline.message", "hopline.routing", "hopline.security", "hopline.wire"},
    "hopline.config": PURE
    | {"contextlib", "difflib", "msgspec", "os", "pathlib", "time", "tomllib", "types"}
    | {"hopline.capture", "hopline.message", "hopline.node", "hopline.rendezvous", "hopline.security"}
    | {"hopline.transport", "hopline.wire"},
    "hopline.datasource": PURE
    | {"pathlib", "pyarrow", "pyspark"}
    | {"hopline.capture", "hopline.decoding", "hopline.message"},
    "hopline.decoding": PURE
    | {"math", "numpy", "pathlib", "pyarrow", "xxhash"}
    | {"hopline.capture", "hopline.config", "hopline.message", "hopline.security", "hopline.wire"},
    "hopline.display": PURE | {"msgspec"} | {"hopline.message", "hopline.wire"},
    "hopline.explorer": PURE
    | {"altair", "contextlib", "errno", "hashlib", "heapq", "html", "importlib", "ipaddress", "jinja2", "logging"}
    | {"markupsafe", "math", "networkx", "pathlib", "pyarrow", "signal", "socket", "starlette", "threading", "time"}
    | {"types", "urllib", "uvicorn", "vl_convert", "weakref", "google", "json"}
    | {"hopline.capture", "hopline.display", "hopline.message", "hopline.query", "hopline.wire"}
    | {"hopline.pipeline.tables.findings"},
    "hopline.export": PURE
    | {"contextlib", "email", "gzip", "http", "importlib", "json", "pyarrow", "pyspark", "random", "ssl", "time"}
    | {"urllib", "uuid"}
    | {"hopline.capture", "hopline.message", "hopline.pipeline"},
    "hopline.generator": PURE
    | {"concurrent", "contextlib", "json", "math", "numpy", "pathlib", "pyarrow", "shutil"}
    | {"hopline.capture", "hopline.message", "hopline.security", "hopline.wire"},
    "hopline.message": PURE | {"msgspec", "google", "logging", "os", "sys", "traceback", "types", "uuid"},
    "hopline.metrics": PURE
    | {"asyncio", "http", "prometheus_client", "socket", "socketserver", "threading", "wsgiref"}
    | {"hopline.capture", "hopline.message", "hopline.node", "hopline.observers", "hopline.rendezvous"},
    "hopline.observers": PURE
    | {"asyncio", "bisect", "contextvars", "logging", "msgspec", "opentelemetry", "pyarrow"}
    | {"hopline.actors", "hopline.capture", "hopline.client", "hopline.message", "hopline.routing"}
    | {"hopline.transport", "hopline.wire"},
    "hopline.pipeline": PURE
    | {"atexit", "concurrent", "contextlib", "importlib", "inspect", "json"}
    | {"msgspec", "numpy", "os", "pathlib", "platform", "py4j", "pyarrow", "pyspark"}
    | {"shlex", "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time", "types"}
    | {"urllib", "uuid", "zipfile"}
    | {"hopline.capture", "hopline.datasource", "hopline.decoding", "hopline.message"},
    "hopline.query": PURE
    | {"concurrent", "contextlib", "duckdb", "fsspec", "json", "os", "pathlib", "threading", "types", "urllib"}
    | {"hopline.message", "hopline.pipeline.days", "hopline.pipeline.failures", "hopline.pipeline.tables"},
    "hopline.rendezvous": PURE
    | {"asyncio", "msgspec", "random", "time", "types", "uuid"}
    | {"hopline.cluster", "hopline.message", "hopline.transport", "hopline.wire"},
    "hopline.routing": (PURE - {"datetime", "hmac"}) | {"difflib", "msgspec", "hopline.message", "hopline.wire"},
    "hopline.schemas": PURE | {"google", "hashlib", "msgspec", "pydantic"} | {"hopline.actors", "hopline.message"},
    "hopline.security": PURE
    | {"base64", "bisect", "hashlib", "logging", "msgspec", "os", "pathlib", "shlex", "stat"}
    | {"hopline.message", "hopline.wire"},
    "hopline.testing": PURE
    | {"asyncio", "contextlib", "msgspec", "random", "selectors", "time", "types", "weakref"}
    | {"hopline.actors", "hopline.client", "hopline.cluster", "hopline.display", "hopline.message", "hopline.node"}
    | {"hopline.observers", "hopline.routing", "hopline.simulation"},
    "hopline.transport": PURE
    | {"asyncio", "atexit", "contextlib", "errno", "fcntl", "importlib", "ipaddress", "logging", "math", "msgspec"}
    | {"os", "random", "socket", "sys", "termios", "threading", "time", "zmq"}
    | {"hopline.message", "hopline.wire", "hopline.zmtp"},
    "hopline.wire": (PURE - {"datetime"}) | {"hopline.message"},
    "hopline.zmtp": {"__future__", "collections", "dataclasses", "enum", "struct", "typing"},
}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_what_the_design_allows_and_nothing_else(package: str) -> None:
    allowed = ALLOWED[package] | {package}
    files = sorted((SOURCE / package.replace(".", "/")).rglob("*.py"))
    assert files
    for path in files:
        for module in imported(path):
            assert any(module == name or module.startswith(f"{name}.") for name in allowed), f"{path}: {module}"


def test_only_the_plugin_imports_pytest() -> None:
    importing = {path.parent.name for path in SOURCE.rglob("*.py") if "pytest" in set(imported(path))}
    assert importing == {"pytest_hopline"}


def test_nothing_is_pickled_anywhere() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not {"pickle", "cloudpickle", "dill", "marshal", "shelve"} & set(imported(path)), path
