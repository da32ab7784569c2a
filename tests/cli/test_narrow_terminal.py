"""What commands print on a terminal of 80 columns, in a network whose names are as long as real ones."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.commands import Command, environment
from tests.network.processes import LONGEST, free_ports

APPLICATION = """
import msgspec

from hopline import Actor, Payload, handler, payload


@payload("WAREHOUSE.INVENTORY.RESERVATION.REQUESTED", version=3, partition="europe-west-4")
class Reserve(msgspec.Struct, frozen=True):
    sku: {kind} = {default}


@payload("WAREHOUSE.INVENTORY.RESERVATION.CONFIRMED", version=3)
class Reserved(msgspec.Struct, frozen=True):
    sku: {kind} = {default}


class CancelEveryReservationOfACustomer(Payload):
    customer: str = ""


class InventoryReservationCoordinator(Actor):
    @handler
    def reserve_the_requested_quantity(self, request: Reserve) -> Reserved:
        return Reserved(request.sku)

    @handler
    def cancel_every_earlier_reservation(self, request: CancelEveryReservationOfACustomer) -> None:
        pass


app = [InventoryReservationCoordinator(), InventoryReservationCoordinator()]
"""
Commands = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]

WIDTH = 80
REQUESTED = "WAREHOUSE.INVENTORY.RESERVATION.REQUESTED/3/europe-west-4"
CONFIRMED = "WAREHOUSE.INVENTORY.RESERVATION.CONFIRMED/3"
CANCEL = "CancelEveryReservationOfACustomer/1"
ACTOR = "InventoryReservationCoordinator"
RESERVE, CANCEL_ALL = f"{ACTOR}.reserve_the_requested_quantity", f"{ACTOR}.cancel_every_earlier_reservation"
PRIMARY, STANDBY = "warehouse-inventory-europe-west-4-primary", "warehouse-inventory-europe-west-4-standby"
CAPTURES = f"captures-of-all-warehouses-in-europe-and-elsewhere/recorded-by-the-node/{PRIMARY}"
NODES = (PRIMARY, STANDBY)

# Each command with what its user chose to name, and must therefore be shown whole.
COMMANDS: Commands = {
    "stats": (("stats",), (*NODES, ACTOR, REQUESTED, CANCEL)),
    "routes": (("routes",), (*NODES, RESERVE, CANCEL_ALL, REQUESTED, CANCEL)),
    "routes of a node": (("routes", "--node", PRIMARY), (*NODES, RESERVE, CANCEL_ALL, "built-in")),
    "trace": (("trace", REQUESTED), (*NODES, RESERVE, REQUESTED)),
    "trace --real": (("trace", REQUESTED, "--real", "--callback", CONFIRMED), (REQUESTED, CONFIRMED)),
    "capture status": (("capture", "status"), (*NODES, CAPTURES)),
    "nodes": (("nodes",), (*NODES, ACTOR, REQUESTED, CANCEL)),
    "ping": (("ping", PRIMARY, "--count", "2", "--interval", "0.01"), (PRIMARY,)),
    "send": (("send", REQUESTED, "--callback", CONFIRMED), (CONFIRMED,)),
    "send --broadcast": (("send", CANCEL, "--broadcast"), (*NODES, CANCEL)),
    "capture stop": (("capture", "stop", PRIMARY), (PRIMARY, CAPTURES)),
    "schema": (("schema", "--app", "warehouse:app", "--output", "asyncapi.json"), ("asyncapi.json",)),
}
LIVE: Commands = {"tail": (("tail", "--all"), (*NODES, REQUESTED, RESERVE, CONFIRMED))}  # while these commands run
FILES: Commands = {
    "capture list": (("capture", "list", CAPTURES), (PRIMARY,))
}  # which are there when the capture has stopped


class Printed:
    """What every command printed, and the lines of a node when it was ready."""

    def __init__(self, ready: list[str]) -> None:
        self.ready = ready
        self.lines: dict[str, list[str]] = {}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Printed]:
    folder = tmp_path_factory.mktemp("warehouse")
    (port,) = free_ports(1)
    (folder / "hopline.toml").write_text(f'[node]\nrendezvous = ["tcp://127.0.0.1:{port}"]\n')
    (folder / "warehouse.py").write_text(APPLICATION.format(kind="int", default="0"))
    (folder / "changed.py").write_text(APPLICATION.format(kind="str", default='""'))
    env = {"COLUMNS": str(WIDTH)}
    options = ("--app", "warehouse:app", "--embedded", "--identity", PRIMARY, "--capture", CAPTURES)
    with Command(folder, "node", *options, env=env) as primary:
        primary.line("capture ")
        with Command(folder, "node", "--app", "changed:app", "--identity", STANDBY, env=env) as standby:
            standby.line("capture ")
            primary.line("has another schema")
            printed = Printed(primary.lines)
            with Command(folder, *LIVE["tail"][0], env=env) as tail:
                tail.line("messages of ")
                printed.lines = run_all(folder, env, COMMANDS)
                assert tail.stop(signal.SIGINT) == 0
                printed.lines["tail"] = tail.lines
            printed.lines |= run_all(folder, env, FILES)
            yield printed
            assert standby.stop(signal.SIGINT) == 0
        assert primary.stop(signal.SIGINT) == 0


def run_all(folder: Path, env: dict[str, str], commands: Commands) -> dict[str, list[str]]:
    """Run all commands at the same time, because each spends most of its time waiting."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-m", "hopline", *arguments],
            cwd=folder,
            env=environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, (arguments, _) in commands.items()
    }
    lines = {}
    for name, process in processes.items():
        output, _ = process.communicate(timeout=LONGEST)
        assert process.returncode == 0, output
        lines[name] = output.splitlines()
    return lines


def require_narrow(lines: list[str]) -> None:
    assert lines
    assert not [line for line in lines if cell_len(line) > WIDTH]


@pytest.mark.parametrize("command", [*COMMANDS, *LIVE, *FILES])
def test_no_line_is_too_long_and_nothing_that_somebody_named_is_cut(printed: Printed, command: str) -> None:
    lines = printed.lines[command]
    require_narrow(lines)
    words = {word.rstrip(",:") for line in lines for word in re.split(r" +", line)}
    broken_words = "".join(line.strip() for line in lines)
    _, names = (COMMANDS | LIVE | FILES)[command]
    for name in names:
        assert name in (words if len(name) < WIDTH else broken_words)


def test_so_it_is_with_a_node_that_is_ready(printed: Printed) -> None:
    begin = next(number for number, line in enumerate(printed.ready) if line.endswith("is ready"))
    end = next(number for number, line in enumerate(printed.ready) if line.startswith("  capture "))
    lines = printed.ready[begin : end + 3]
    require_narrow([line for line in lines if not line[:1].isdigit()])  # without log records
    shown = "".join(line.strip() for line in lines)
    for name in (PRIMARY, REQUESTED, CANCEL, CAPTURES):
        assert name in shown


def test_different_schemas_of_a_message_are_shown_with_their_nodes(printed: Printed) -> None:
    lines = printed.lines["routes"]
    begin = next(number for number, line in enumerate(lines) if line.startswith("These messages have different"))
    table = "\n".join(lines[begin:])
    assert REQUESTED in table
    assert CANCEL not in table  # it is the same on both
    fingerprints = re.findall(r"fingerprint ([0-9a-f]{8})", table)
    assert len(set(fingerprints)) == 2
