"""Which Pythons `make test-pythons` finds."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.test_pythons import find, supported

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_what_the_metadata_promises_is_tested() -> None:
    assert supported() == ["3.11", "3.12", "3.13"]


def test_a_python_on_the_path_is_found(tmp_path: Path) -> None:
    python = executable(tmp_path / "bin" / f"python{HERE}", f'exec {sys.executable} "$@"')
    assert find(HERE, str(tmp_path / "bin"), []) == python


def test_a_shim_that_leads_nowhere_is_passed_over_for_the_versions_of_pyenv(tmp_path: Path) -> None:
    executable(tmp_path / "shims" / f"python{HERE}", "exit 127")
    python = executable(tmp_path / f"versions/{HERE}.7/bin/python{HERE}", f'exec {sys.executable} "$@"')
    assert find(HERE, str(tmp_path / "shims"), [tmp_path]) == python


def test_a_python_of_another_version_is_not_taken(tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "python3.99", f'exec {sys.executable} "$@"')
    assert find("3.99", str(tmp_path / "bin"), [tmp_path]) is None
