"""What is published: the wheel runs the README's first program where nothing else is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import hopline

ROOT = Path(__file__).parent.parent
PIP = ("-m", "pip", "--disable-pip-version-check")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    # The sources of this checkout must not stand in for what is installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def _package_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where pip can't download: nothing could be built or installed."""
    download = [sys.executable, *PIP, "download", "--quiet", "--no-deps", "--dest", "."]
    directory = tmp_path_factory.mktemp("download")
    done = subprocess.run([*download, "hatchling"], cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no package index is reachable: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def distributions(_package_index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the source distribution."""
    directory = tmp_path_factory.mktemp("distributions")
    run("make", "dist", f"PYTHON={sys.executable}", f"DIST={directory / 'dist'}", f"DIST_VENV={directory / 'venv'}")
    return directory / "dist"


@pytest.mark.timeout(600)
def test_the_wheel_runs_the_first_program_of_the_readme_in_an_empty_environment(
    distributions: Path, tmp_path: Path
) -> None:
    (wheel,) = distributions.glob("*.whl")
    assert wheel.name == f"hopline-{hopline.__version__}-py3-none-any.whl"
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(python, *PIP, "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    run(python, *PIP, "check")
    program = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert program is not None
    (tmp_path / "first.py").write_text(program[1], encoding="utf-8")
    assert "Hello, world!" in run(python, "first.py", cwd=tmp_path)
    version = run(tmp_path / "venv" / "bin" / "hopline", "--version", cwd=tmp_path)
    assert version == f"hopline {hopline.__version__}\n"


@pytest.mark.timeout(600)
def test_the_wheel_has_every_file_of_the_packages(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = run("git", "ls-files", "src").splitlines() if (ROOT / ".git").exists() else []
    assert {name.removeprefix("src/") for name in tracked} <= packed
    assert {"hopline/py.typed", "hopline/__init__.py"} <= packed


@pytest.mark.timeout(600)
def test_the_source_distribution_can_be_tested(distributions: Path) -> None:
    (archive,) = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        top_level = {Path(name).parts[1] for name in files.getnames() if len(Path(name).parts) > 1}
    assert top_level >= {"src", "tests", "tools", "docs", "examples", "Makefile", "constraints.txt", "pyproject.toml"}


def test_pre_commit_runs_the_pinned_ruff() -> None:
    pinned = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert pinned is not None
    assert f"rev: v{pinned[1]}\n" in (ROOT / ".pre-commit-config.yaml").read_text("utf-8")


def test_every_group_can_be_installed_alone() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    for name, requirements in groups.items():
        for requirement in requirements:
            if isinstance(requirement, dict):
                assert requirement["include-group"] in groups, name
            else:
                assert not requirement.startswith("hopline"), name
