"""`hopline node --reload`: a node that starts anew when its source changes, and waits when it is broken."""

from __future__ import annotations

from pathlib import Path
from signal import SIGHUP, SIGINT

import pytest

from hopline.cli.commands.node.reload import changes, modification_times
from tests.cli.commands import Command, prepare

ARGUMENTS = ("node", "--app", "greeter:Greeter", "--embedded", "--reload")


def test_a_change_starts_the_node_anew_and_an_error_waits_for_the_next(tmp_path: Path) -> None:
    prepare(tmp_path)
    source = tmp_path / "greeter.py"
    good = source.read_text()
    with Command(tmp_path, *ARGUMENTS) as node:
        try:
            node.line(f"watching 2 files below {tmp_path}; Ctrl-C stops")
            node.line("is ready")
            source.write_text("raise RuntimeError('half way through')")
            node.line("reloading: greeter.py changed")
            node.line("stopped: ")
            node.line("importing greeter failed: RuntimeError: half way through")
            node.line("the node ended with exit code 1; waiting for a change")
            node.lines.clear()
            source.write_text(good.replace("class Greeter", "class Stranger(Actor): ...\n\n\nclass Greeter"))
            node.line("reloading: greeter.py changed")
            node.line("is ready")
        finally:
            code = node.stop(SIGINT)  # whatever happens: its child is none of ours
        assert code == 0
        node.line("stopped: ")


def test_the_end_of_its_terminal_ends_the_node(tmp_path: Path) -> None:
    prepare(tmp_path)
    with Command(tmp_path, *ARGUMENTS) as node:
        try:
            node.line("is ready")
        finally:
            code = node.stop(SIGHUP)
        assert code == 0
        node.line("stopped: ")


def test_the_files_that_count_are_sources_and_configurations_of_the_project(tmp_path: Path) -> None:
    for name in ("app.py", "shop/orders.py", "hopline.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for name in (".git/a.py", "__pycache__/b.py", "venv/pyvenv.cfg", "venv/lib/c.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere")
    found = {path.relative_to(tmp_path).as_posix() for path in modification_times(tmp_path)}
    assert found == {"app.py", "shop/orders.py", "hopline.toml"}


@pytest.mark.parametrize(
    ("after", "changed"),
    [
        ({"a": 1, "b": 2}, []),
        ({"a": 1, "b": 3}, ["b"]),
        ({"a": 1}, ["b"]),
        ({"a": 1, "b": 2, "c": 1}, ["c"]),
    ],
)
def test_changes_are_files_that_are_new_gone_or_of_another_time(after: dict[str, int], changed: list[str]) -> None:
    before = {Path("a"): 1, Path("b"): 2}
    assert changes(before, {Path(name): time for name, time in after.items()}) == [Path(name) for name in changed]
