"""The container file: its steps build and run an application in a directory that stands for the image.

No container is started here: the steps do what they are to do, but no builder reads them, and the one that adds a user
is left out, because it needs root.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.commands import environment, prepare
from tests.network.processes import free_ports, until

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


class Step(NamedTuple):
    instruction: str
    argument: str


def steps() -> list[Step]:
    lines = CONTAINERFILE.read_text(encoding="utf-8").splitlines()
    return [Step(*line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]


def argument_of(instruction: str) -> str:
    (argument,) = [step.argument for step in steps() if step.instruction == instruction]
    return argument


def variables() -> dict[str, str]:
    return dict(assignment.split("=", 1) for assignment in argument_of("ENV").split())


def health_check() -> list[str]:
    """Return the program of the health check, as a shell would run it."""
    return ["sh", "-c", argument_of("HEALTHCHECK").partition("CMD ")[2]]


def test_the_container_file_has_known_instructions_and_ends_with_a_user_who_is_not_root() -> None:
    instructions = [step.instruction for step in steps()]
    assert instructions[0] == "FROM"
    assert set(instructions) <= KNOWN
    assert argument_of("USER") != "root"
    assert instructions.index("USER") > max(i for i, name in enumerate(instructions) if name in {"RUN", "COPY"})
    assert json.loads(argument_of("ENTRYPOINT")) == ["hopline"]
    supported = re.search(r'requires-python = ">=(3\.\d+),<(3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    version = re.fullmatch(r"python:(3\.\d+)-slim", argument_of("FROM"))
    assert supported is not None
    assert version is not None
    assert supported[1] <= version[1] < supported[2]


def test_what_is_copied_from_the_checkout_is_there() -> None:
    for step in steps():
        if step.instruction == "COPY":
            *sources, target = step.argument.split()
            assert target.startswith("/")
            for source in sources:
                assert source in {"dist/*.whl", "app/"} or (ROOT / source).exists()


class Image:
    """A directory that stands for the root of an image."""

    def __init__(self, root: Path, context: Path) -> None:
        self.root = root
        self._context = context

    def inside(self, text: str) -> str:
        """Return a text with the paths of the image replaced by those of the directory."""
        return re.sub(r"(?<![\w/.])/(?=(?:opt|srv|tmp)/)", f"{self.root}/", text)

    def build(self) -> None:
        """Do every step that changes files, as a builder does."""
        for step in steps():
            if step.instruction == "COPY":
                *sources, target = step.argument.split()
                for source in sources:
                    self._copy(source, Path(self.inside(target)))
            elif step.instruction == "RUN" and "useradd" not in step.argument:
                commands = self.inside(step.argument)
                done = subprocess.run(["sh", "-ec", commands], capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"

    def _copy(self, source: str, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        for path in self._context.glob(source):
            if path.is_dir():
                shutil.copytree(path, target, dirs_exist_ok=True)
            else:
                shutil.copy(path, target)

    def environment(self) -> dict[str, str]:
        own = {name: self.inside(value) for name, value in variables().items()}
        own["PATH"] = f"{self.root}/srv/hopline/bin{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
        return kept | own


@pytest.mark.slow  # it installs everything: a minute
@pytest.mark.timeout(600)
def test_the_steps_build_a_directory_in_which_a_node_runs_and_is_healthy(tmp_path: Path) -> None:
    context = tmp_path / "context"
    app = context / "app"
    app.mkdir(parents=True)
    prepare(app)
    shutil.copy(ROOT / "constraints.txt", context)
    wheel = [*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(context / "dist"), str(ROOT)]
    done = subprocess.run(wheel, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no package index is reachable: {done.stderr.strip().splitlines()[-1]}")
    image = Image(tmp_path / "image", context)
    image.build()

    address = f"127.0.0.1:{free_ports(1)[0]}"
    env = image.environment() | {"HOPLINE_METRICS__ADDRESS": address}
    entry = json.loads(argument_of("ENTRYPOINT"))
    folder = image.inside(argument_of("WORKDIR") + "/")
    version = subprocess.run([*entry, "--version"], cwd=folder, env=env, capture_output=True, text=True, check=True)
    assert version.stdout.startswith("hopline ")
    with subprocess.Popen([*entry, "node", "--app", "greeter:Greeter", "--embedded"], cwd=folder, env=env) as node:
        try:

            def is_healthy() -> bool:
                return subprocess.run(health_check(), env=env, capture_output=True, check=False).returncode == 0

            until(is_healthy)
        finally:
            node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0
