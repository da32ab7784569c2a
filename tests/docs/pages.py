"""Run the code blocks of a Markdown page, in their order, as a reader would.

A page is a program: its blocks share one directory and, where they are Python, one set of variables. What is done with
a block depends on its language and on a comment in the line above it:

| block | what is done |
|---|---|
| ``python`` | executed |
| ``sh`` | run by bash, which stops at the first command that fails |
| ``toml`` | every key must be a key of the configuration |
| ``text``, ``dockerfile``, ``{…}`` | nothing: output, or a file of another tool |
| any, below ``<!-- file: NAME -->`` | written to that file |
| ``sh``, below ``<!-- background -->`` | each line is started, and stopped at the end of the page |
| ``sh``, below ``<!-- background stopped -->`` | run after everything in the background was stopped |
| any, below ``<!-- not run: REASON -->`` | nothing |
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tools import configuration_page

from hopline.config.schema import SECTIONS

ROOT = Path(__file__).parents[2]
DEFAULT_RENDEZVOUS = "tcp://127.0.0.1:8001"  # another test may use it at the same time
EXAMPLE_METRICS = "127.0.0.1:9101"  # as above
SHOWN_ONLY = {"text", "dockerfile"}
RUN = {"python", "sh", "toml"}

_FENCE = re.compile(r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S)
_NOT_RUN = "not run: "
_FILE = "file: "
_BACKGROUND = "background"
_BACKGROUND_STOPPED = "background stopped"


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    language: str
    note: str
    code: str

    @property
    def reason_not_to_run(self) -> str:
        return self.note.removeprefix(_NOT_RUN) if self.note.startswith(_NOT_RUN) else ""

    @property
    def file(self) -> str:
        return self.note.removeprefix(_FILE) if self.note.startswith(_FILE) else ""

    @property
    def is_shown_only(self) -> bool:
        return self.language in SHOWN_ONLY or self.language.startswith("{")


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page."""
    found = []
    for match in _FENCE.finditer(page):
        line = page.count("\n", 0, match.start("code"))
        found.append(Block(line, match["language"].strip(), match["note"] or "", match["code"]))
    return found


class PageRun:
    """One page that is being run in a directory of its own."""

    def __init__(self, page: Path, directory: Path, environment: dict[str, str]) -> None:
        self._page = page
        self._directory = directory
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._environment = os.environ | {"PATH": path, "PYTHONPATH": python_path, "COLUMNS": "100"} | environment
        self._rendezvous = environment["HOPLINE_RENDEZVOUS__ADDRESS"]
        self._metrics = f"127.0.0.1:{free_port()}"
        self._variables: dict[str, Any] = {"__name__": page.stem.replace("-", "_")}
        self._started: list[subprocess.Popen[str]] = []

    def run(self) -> None:
        """Run every block; stop what was started in the background, whatever happens."""
        log_handlers = list(logging.getLogger().handlers)
        before = Path.cwd()
        os.chdir(self._directory)
        try:
            for block in blocks(self._page.read_text(encoding="utf-8")):
                if not block.reason_not_to_run:
                    self._run(block)
        finally:
            os.chdir(before)
            logging.getLogger().handlers[:] = log_handlers
            self.stop()

    def _run(self, block: Block) -> None:
        if block.file:
            program = block.code.replace(DEFAULT_RENDEZVOUS, self._rendezvous)
            (self._directory / block.file).write_text(program, encoding="utf-8")
        elif block.language == "python":
            lines = "\n" * block.line + block.code  # so that a traceback names the line of the page
            code = compile(lines, str(self._page), "exec", dont_inherit=True)  # without this file's own `__future__`
            exec(code, self._variables)  # noqa: S102
        elif block.language == "toml":
            check_keys(block.code)
        elif block.language == "sh" and block.note == _BACKGROUND:
            self.start(block.code)
        elif block.language == "sh":
            if block.note == _BACKGROUND_STOPPED:
                self.stop()
            self._run_commands(block)
        else:
            assert block.is_shown_only, f"{self._page}:{block.line}: language {block.language!r}"

    def _run_commands(self, block: Block) -> None:
        done = subprocess.run(
            ["bash", "-ec", self._as_installed(block.code)],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{self._page}:{block.line}\n{block.code}\n{done.stdout}\n{done.stderr}"

    def start(self, commands: str) -> None:
        """Start each line as a command in the background, and wait until each has printed something."""
        for command in self._as_installed(commands).splitlines():
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._directory,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._started.append(process)
            assert process.stdout is not None
            assert process.stdout.readline(), f"{command} ended at once"

    def stop(self) -> None:
        """Stop what was started in the background, the last first."""
        while self._started:
            process = self._started.pop()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)

    def _as_installed(self, commands: str) -> str:
        commands = commands.replace(EXAMPLE_METRICS, self._metrics)
        # `make demo` and `make test` have tests of their own, or would run this test again.
        return commands.replace(".venv/bin/hopline", "hopline").replace("make ", "make --dry-run ")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def check_keys(toml: str) -> None:
    """Raise unless every key of a configuration file is a key that Hopline reads."""
    known = {name for section, keys in SECTIONS.items() for name, _, _ in configuration_page.rows(keys, section)}
    sections = {name.rpartition(".")[0] for name in known}
    for section, table in tomllib.loads(toml).items():
        for key in table:
            name = f"{section}.{key}"
            assert name in known or name in sections, name
