"""Every command that takes part in a network can be told the format to begin with."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from hopline import WireFormat
from hopline.cli import app
from hopline.cli.options import client_configuration, configuration_of

COMMANDS = (
    ("node", "--app", "greeter:Greeter"),
    ("rendezvous",),
    ("send", "Greet"),
    ("routes",),
    ("trace", "Greet"),
    ("stats",),
    ("capture", "status"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_format_that_there_is_not_is_refused_by_its_name(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--wire-format", "v9"])
    assert result.exit_code == 2
    assert "v9" in result.output
    assert "v5_int32" in result.output


def test_the_format_that_was_given_is_used() -> None:
    assert client_configuration(None, None, WireFormat.V5_INT32).client_network().wire_format is WireFormat.V5_INT32
    given = {"rendezvous.relay.wire_format": ("--wire-format", WireFormat.V6)}
    assert configuration_of(None, given).rendezvous().relay.wire_format is WireFormat.V6
