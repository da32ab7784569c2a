"""Write ``docs/reference/cli.md`` from the commands themselves: ``python -m tools.cli_page``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from typer import Context
from typer.core import TyperArgument, TyperGroup
from typer.main import get_command

from hopline.cli import app

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"

INTRODUCTION = """\
# Command line

<!-- Made from the commands by tools/cli_page.py. Do not edit: make generate. -->

Every command has `--help`, which shows what is on this page. Options of `hopline node` and
`hopline rendezvous` can also stand in a [configuration file](configuration.md) or in the
environment.
"""


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the commands below a command, with their full names."""
    if not isinstance(command, TyperGroup):
        yield name, command
        return
    for subcommand_name, subcommand in command.commands.items():
        if not subcommand.hidden:
            yield from commands(subcommand, f"{name} {subcommand_name}")


def section(name: str, command: Any) -> Iterator[str]:
    """Yield the lines that describe one command; its help is Markdown already."""
    context = Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    parameters = [parameter for parameter in command.params if _is_shown(parameter)]
    yield f"## {name}"
    yield ""
    yield "```text"
    yield f"{name} {usage}"
    yield "```"
    yield ""
    yield (command.help or "").strip()
    yield ""
    if parameters:
        yield "| argument or option | default | meaning |"
        yield "|---|---|---|"
    for parameter in parameters:
        yield f"| {_names(parameter)} | {_default(parameter)} | {_meaning(parameter)} |"
    yield ""


def _is_shown(parameter: Any) -> bool:
    return not getattr(parameter, "hidden", False) and "--help" not in parameter.opts


def _names(parameter: Any) -> str:
    if isinstance(parameter, TyperArgument):
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or callable(value):
        return ""
    if value is True:
        return "yes"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    if isinstance(value, int | float):
        return f"{value:,}"
    return f"`{value}`" if isinstance(value, str) and value else ""


def _meaning(parameter: Any) -> str:
    text = getattr(parameter, "help", None) or ""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


def generate() -> str:
    """Return the whole page."""
    lines = [INTRODUCTION]
    for name, command in commands(get_command(app), "hopline"):
        lines += section(name, command)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(Path.cwd())}")
