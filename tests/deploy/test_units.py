"""The units for systemd: accepted by its own check, and their commands run, reload and stop as it runs them."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hopline.node import NodeSettings
from tests.cli.commands import Command, prepare, run
from tests.network.processes import free_ports

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = ("hopline-node@.service", "hopline-rendezvous.service")
SIGNALS = {"-HUP": signal.SIGHUP}


def settings(unit: str) -> dict[str, str]:
    """Return the settings of a unit; of one that is given several times, the last."""
    lines = (DEPLOY / unit).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))


def command_of(unit: str, variables: dict[str, str]) -> list[str]:
    """Return the arguments that the unit gives to hopline, with its variables replaced as systemd does."""
    program, *arguments = shlex.split(settings(unit)["ExecStart"])
    assert Path(program).name == "hopline"
    return [re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], argument) for argument in arguments]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_mistake_in_a_unit(unit: str, tmp_path: Path) -> None:
    text = re.sub(
        r"^ExecStart=\S+", f"ExecStart={sys.executable}", (DEPLOY / unit).read_text("utf-8"), flags=re.MULTILINE
    )

    def verify(text: str) -> str:
        path = tmp_path / unit.replace("@", "@shop")
        path.write_text(text)
        verify = ["systemd-analyze", "verify", "--man=no", str(path)]
        done = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
        return f"{done.stdout}{done.stderr}"

    assert verify(text) == ""
    assert "LockPersonalty" in verify(text.replace("LockPersonality", "LockPersonalty"))


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_gives_a_node_the_time_to_end_in_order(unit: str) -> None:
    drained_after = NodeSettings().drain_timeout + NodeSettings().cancel_timeout
    assert int(settings(unit)["TimeoutStopSec"]) > drained_after


def test_the_commands_of_the_units_run_reload_and_stop(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert run(tmp_path, "keys", "new", "keys", "greetings").returncode == 0
    domain = (
        '[security]\nkey_file = "keys"\n[[security.domains]]\nname = "greetings"\nidentities = ["Greet", "Greeting"]\n'
    )
    with (tmp_path / "hopline.toml").open("a") as configuration:
        configuration.write(domain)
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    rendezvous, node = UNITS[1], UNITS[0]
    as_server = {"HOPLINE_CONFIG": "hopline.toml", "HOPLINE_METRICS__ADDRESS": first}
    as_node = as_server | {"HOPLINE_METRICS__ADDRESS": second, "HOPLINE_APP": "greeter:Greeter"}
    assert set(as_server) == {variable.split("=")[0] for variable in settings(rendezvous)["Environment"].split()}
    with Command(tmp_path, *command_of(rendezvous, as_server), env=as_server) as server:
        server.line("is ready")
        assert first in server.line("metrics ")
        with Command(tmp_path, *command_of(node, as_node), env=as_node) as greeter:
            greeter.line("is ready")
            assert second in greeter.line("metrics ")
            assert run(tmp_path, "send", "Greet", '{"name": "x"}', "--callback", "Greeting").returncode == 0
            assert run(tmp_path, "keys", "new", "keys", "greetings", "--verify-only").returncode == 0
            _, number, _ = shlex.split(settings(node)["ExecReload"])
            greeter.signal(SIGNALS[number])
            greeter.line("keys")
            assert greeter.stop(signal.SIGTERM) == 0
            greeter.line("nothing was lost")
        assert server.stop(signal.SIGTERM) == 0
