"""Names that people gave: a node's identity is shown whole, an actor by its class and handler."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hopline import MessageIdentifier
from hopline.cli import app
from hopline.cli.actor_labels import ActorLabels, actor_label, class_and_handler
from hopline.cli.identifiers import short_identity, shorten_identity
from hopline.message import new_actor_identity, new_node_identity
from hopline.node.report import ActorReport
from tests.cli.commands import Command, prepare

CHOSEN = "the-front-desk-of-the-shop-in-the-high-street"
GREET = MessageIdentifier(b"Greet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("names")
    prepare(folder)
    with Command(folder, "node", "--app", "greeter:Greeter", "--embedded", "--identity", CHOSEN) as node:
        assert node.line("is ready").split()[2] == CHOSEN
        yield folder
        assert node.stop() == 0


def invoke(folder: Path, *arguments: str, columns: int = 300) -> str:
    """Run a command in this process, in a terminal so wide, and return what it shows."""
    level = logging.getLogger("hopline").level
    env = {"HOPLINE_CONFIG": str(folder / "hopline.toml"), "COLUMNS": str(columns)}
    try:
        done = CliRunner().invoke(app, arguments, env=env)
    finally:
        logging.getLogger("hopline").setLevel(level)  # a command silences the rest
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["routes"],
        ["trace", "Greet"],
        ["stats"],
        ["send", "Greet", '{"name": "world"}', "--callback", "Greeting"],
        ["trace", "Greet", '{"name": "world"}', "--real", "--callback", "Greeting"],
    ],
    ids=" ".join,
)
def test_an_identity_that_somebody_chose_is_never_cut(folder: Path, command: list[str]) -> None:
    assert CHOSEN in invoke(folder, *command)


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("command", [["routes"], ["trace", "Greet"], ["stats"], ["capture", "status"]], ids=" ".join)
def test_a_narrow_terminal_shows_identities_whole(folder: Path, command: list[str], columns: int) -> None:
    shown = invoke(folder, *command, columns=columns)
    assert CHOSEN in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.parametrize("command", [["routes"], ["trace", "Greet"]], ids=" ".join)
def test_an_actor_is_shown_by_its_class_and_handler(folder: Path, command: list[str]) -> None:
    assert "Greeter.greet" in invoke(folder, *command)
    document = json.loads(invoke(folder, *command, "--json"))
    node = document["routes"][0]["nodes"][0] if command == ["routes"] else document["nodes"][0]
    (actor,) = node["actors"]
    assert (node["node"], actor["name"], actor["handler"]) == (CHOSEN, "Greeter", "greet")
    assert len(actor["identity"]) == 36


def test_an_identity_has_a_limit() -> None:
    done = CliRunner().invoke(app, ["node", "--app", "hopline.demo.shop:Pricing", "--identity", "x" * 256])
    assert done.exit_code == 2
    assert "--identity: expected 1 to 255 bytes" in done.stderr


def test_only_a_generated_identity_is_shortened() -> None:
    node, actor = new_node_identity(), new_actor_identity()
    assert short_identity(node) == node.decode()[:8]
    assert short_identity(actor) == actor[1:].decode()[:8]
    for chosen in ("front", CHOSEN, "0f1e2d3c-almost-a-guid-0f1e2d3c4b5a"):
        assert short_identity(chosen.encode()) == shorten_identity(chosen) == chosen


def test_an_actor_of_a_node_that_does_not_answer_is_shown_by_its_identity() -> None:
    actor = new_actor_identity()
    document = ActorLabels().describe(actor, GREET)
    assert document == {"identity": actor[1:].decode()}
    assert actor_label(document) == actor[1:9].decode()


def test_an_older_node_tells_the_class_and_not_the_handler() -> None:
    report = ActorReport(identity=b"\1desk", name="Desk", handles=(GREET,), waiting=0, running=0)
    assert class_and_handler(report, GREET) == {"name": "Desk"}
    assert actor_label({"identity": "desk"} | class_and_handler(report, GREET)) == "Desk desk"
