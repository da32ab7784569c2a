"""Run the fast tests on every supported Python that is installed: ``make test-pythons``.

An interpreter is looked for by its name on the PATH and among pyenv's versions, and must be able to make a virtual
environment. Each gets one of its own, ``.venv-3.12`` and so on, which later runs use again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUPPORTED = re.compile(r"Programming Language :: Python :: (3\.\d+)")
PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
PROBE_TIME = 30.0  # seconds

EXTRAS = ".[curve,fast,generator,pydantic,telemetry]"

# What needs neither Spark nor minutes, and uses the event loop, threads, sockets and processes as all the rest does.
FAST = (
    "actors",
    "client",
    "cluster",
    "config",
    "message",
    "network/test_scripted_peer.py",
    "network/test_stopping.py",
    "node",
    "routing",
    "security",
    "test_imports.py",
    "transport",
    "wire",
    "zmtp",
)


def supported() -> list[str]:
    """Return the versions that the package's metadata promises, oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    matches = map(SUPPORTED.fullmatch, project["classifiers"])
    return [match[1] for match in matches if match]


def pyenv_roots() -> Iterator[Path]:
    """Return the places where pyenv may keep its versions."""
    if given := os.environ.get("PYENV_ROOT"):
        yield Path(given)
    try:
        told = _output("pyenv", "root")
        if told.returncode == 0:
            yield Path(told.stdout.strip())
    except (OSError, subprocess.TimeoutExpired):  # there is none on the PATH
        pass
    yield Path.home() / ".pyenv"


def _output(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROBE_TIME)  # noqa: S603


def candidates(version: str, path: str, roots: Iterable[Path]) -> Iterator[Path]:
    """Return whatever may be the Python of a version, the likeliest first."""
    name = f"python{version}"
    for directory in filter(None, path.split(os.pathsep)):
        yield Path(directory) / name
    for root in roots:
        yield from sorted((root / "versions").glob(f"{version}.*/bin/{name}"), reverse=True)


def is_usable(python: Path, version: str) -> bool:
    """Return whether a file is the Python of a version and can make an environment; a shim of pyenv may be neither."""
    if not os.access(python, os.X_OK):
        return False
    try:
        probe = _output(str(python), "-c", PROBE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0 and probe.stdout.strip() == version


def find(version: str, path: str, roots: Iterable[Path]) -> Path | None:
    """Return the first usable Python of a version."""
    return next((python for python in candidates(version, path, roots) if is_usable(python, version)), None)


def _dependencies() -> str:
    """Return what an environment is made from: the requirements of the package, and the pinned versions."""
    sources = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    return "\n".join(source.read_text(encoding="utf-8") for source in sources)


def environment(version: str, python: Path) -> Path:
    """Return the Python of this version's virtual environment, which is made if it is not there or outdated."""
    home = ROOT / f".venv-{version}"
    inside, ready = home / "bin" / "python", home / ".ready"
    wanted = _dependencies()
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        print(f"Setting up {home.name} (once)", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", home], check=True)  # noqa: S603
        pip = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pinned = [*pip, "--constraint", "constraints.txt"]
        # The pip that comes with older Pythons does not know dependency groups.
        subprocess.run([*pinned, "--upgrade", "pip"], cwd=ROOT, check=True)  # noqa: S603
        subprocess.run([*pinned, "--editable", EXTRAS, "--group", "test"], cwd=ROOT, check=True)  # noqa: S603
        ready.write_text(wanted, encoding="utf-8")
    return inside


def test(version: str, python: Path, arguments: list[str]) -> bool:
    """Run the fast tests, and return whether they passed."""
    paths = [f"tests/{name}" for name in FAST]
    # A cache of its own: examples and failures of one Python are not those of another.
    command = [str(environment(version, python)), "-m", "pytest", "-q", "-o", f"cache_dir=.pytest_cache/{version}"]
    tested = subprocess.run([*command, *(arguments or paths)], cwd=ROOT, check=False)  # noqa: S603
    return tested.returncode == 0


def main(arguments: list[str]) -> int:
    """Test all, then say how each fared. Fail if one failed, or none was found."""
    roots = list(pyenv_roots())
    results: dict[str, str] = {}
    for version in supported():
        python = find(version, os.environ.get("PATH", ""), roots)
        if python is None:
            results[version] = "not found: not on the PATH, nor among pyenv's versions"
            continue
        print(f"\n== Python {version}: {python}", flush=True)
        results[version] = "passed" if test(version, python, arguments) else "FAILED"
    print()
    for version, result in results.items():
        print(f"Python {version}: {result}")
    return 0 if "passed" in results.values() and "FAILED" not in results.values() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
