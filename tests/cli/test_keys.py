"""``hopline keys``: files that only their owner may use, and never a secret on the screen."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hopline.cli import app
from hopline.config import read_curve_pair
from hopline.security import load_keys


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["keys", *map(str, arguments)])


def test_a_new_key_signs_and_the_old_ones_verify(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    for _ in range(2):
        assert run("new", file, "orders").exit_code == 0
    run("new", file, "sales")
    first, second = load_keys(file)["orders"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = run("show", file).output
    lines = [line for line in shown.splitlines() if "orders" in line]
    assert [key.fingerprint in line for key, line in zip((first, second), lines, strict=True)] == [True, True]
    assert "signs and verifies" in lines[0]
    assert "signs" not in lines[1]
    for output in (shown, run("new", file, "orders").output):
        assert not any(key.reveal().hex() in output for key in load_keys(file)["orders"])


def test_a_key_may_be_known_first_and_used_later(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    run("new", file, "orders")
    (old,) = load_keys(file)["orders"]
    file.write_text(f"# ours\n{file.read_text()}")
    assert run("new", file, "orders", "--verify-only").output.endswith("verifies\n")
    new = load_keys(file)["orders"][1]
    assert load_keys(file)["orders"] == (old, new)
    assert run("use", file, new.fingerprint).exit_code == 0
    assert load_keys(file)["orders"] == (new, old)
    assert file.read_text().startswith("# ours\n")


def test_a_pair_for_encryption_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "member"
    made = run("curve", file)
    public, secret = read_curve_pair(file)
    assert made.output == f"public {public.decode()}\n"
    assert secret.decode() not in made.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = run("curve", file)
    assert again.exit_code == 1
    assert "the file exists" in again.output
    assert run("curve", file, "--public").output == made.output


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("show", "none"), 1, "hopline keys show: key file "),
        (("new", "keys", "two words"), 2, "hopline keys new: expected the name of a domain"),
        (("use", "good", "ffff"), 2, "expected the fingerprint of one key in it, found 'ffff'"),
        (("show", "open"), 1, "run: chmod 600 "),
    ],
)
def test_what_goes_wrong_is_one_line(tmp_path: Path, arguments: tuple[str, ...], code: int, told: str) -> None:
    run("new", tmp_path / "good", "orders")
    run("new", tmp_path / "open", "orders")
    (tmp_path / "open").chmod(0o644)
    done = run(arguments[0], tmp_path / arguments[1], *arguments[2:])
    assert done.exit_code == code
    assert told in done.output
    assert len(done.output.splitlines()) == 1
