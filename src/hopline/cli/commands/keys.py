"""``hopline keys``: create and inspect key files. Secrets are never printed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hopline.cli.errors import UsageError, one_line_errors
from hopline.cli.options import DebugOption
from hopline.cli.terminal import make_console, write_line, write_wrapped
from hopline.config import read_curve_pair, write_curve_pair
from hopline.security import Key, key_line, load_keys, new_key
from hopline.transport import new_keys

PRIVATE = 0o600

keys_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Create and inspect key files. Only their owner can read them, and secrets are never printed.",
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The key file.")]


@keys_app.command("new")
def new_command(
    file: FileArgument,
    domain: Annotated[str, typer.Argument(help="Domain of the key.")],
    verify_only: Annotated[
        bool,
        typer.Option("--verify-only", help="Add it after the domain's other keys, so that it does not sign yet."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Generate a key for a domain, and add it to a key file, which is created if necessary.

    The first key of a domain signs, and all of them verify. Running nodes reload a changed file within a second.

    **Example**, to change the key of a running network without losing a message:

        # copy the file to every node: all verify with the new key
        hopline keys new keys.txt orders --verify-only
        # copy it again: all sign with the new key
        hopline keys use keys.txt FINGERPRINT
    """
    with one_line_errors("keys new", debug=debug):
        is_one_word = len(domain.split()) == 1
        if not is_one_word or domain.startswith("#"):
            raise UsageError(
                f"expected the name of a domain, without spaces and not beginning with #, found {domain!r}"
            )
        lines = []
        if file.exists():
            load_keys(file)  # raises if it is not a key file
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        key = new_key()
        others = _lines_of(domain, lines)
        if not others:
            position = len(lines)
        elif verify_only:
            position = others[-1] + 1
        else:
            position = others[0]
        lines.insert(position, key_line(domain, key))
        _replace(file, "".join(lines))
        signs = not (verify_only and others)
        write_wrapped(f"{file}: key {key.fingerprint} of {domain} {_use(signs=signs)}")


@keys_app.command("use")
def use_command(
    file: FileArgument,
    fingerprint: Annotated[str, typer.Argument(help="Fingerprint of the key, as `hopline keys show` prints it.")],
    debug: DebugOption = False,
) -> None:
    """Move a key before the others of its domain, so that it signs.

    **Example**:

        hopline keys use keys.txt 1c3f02ab
    """
    with one_line_errors("keys use", debug=debug):
        keys_by_domain = load_keys(file)
        matches = []
        for domain, keys in keys_by_domain.items():
            matches += [(domain, key) for key in keys if key.fingerprint == fingerprint]
        if len(matches) != 1:
            raise UsageError(f"{file}: expected the fingerprint of one key in it, found {fingerprint!r}")
        domain, key = matches[0]
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        of_domain = _lines_of(domain, lines)
        kept = [line for index, line in enumerate(lines) if index not in of_domain]
        others = [other for other in keys_by_domain[domain] if other != key]
        key_lines = [key_line(domain, ordered) for ordered in (key, *others)]
        position = of_domain[0]
        kept[position:position] = key_lines
        _replace(file, "".join(kept))
        write_wrapped(f"{file}: key {key.fingerprint} of {domain} {_use(signs=True)}")


def _lines_of(domain: str, lines: list[str]) -> list[int]:
    """Return the positions of the lines that hold the keys of a domain."""
    return [index for index, line in enumerate(lines) if line.split()[:1] == [domain]]


def _use(*, signs: bool) -> str:
    return "signs and verifies" if signs else "verifies"


def _replace(file: Path, content: str) -> None:
    """Replace a file atomically, so that a node that reads it meanwhile sees the old one or the new one."""
    opened, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(opened, "w", encoding="utf-8") as temporary:
            temporary.write(content)
        Path(name).chmod(PRIVATE)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@keys_app.command("show")
def show_command(file: FileArgument, debug: DebugOption = False) -> None:
    """Show the domains and fingerprints of a key file. Nodes with the same fingerprints have the same keys.

    **Example**:

        hopline keys show keys.txt
    """
    with one_line_errors("keys show", debug=debug):
        table = Table("domain", "fingerprint", "bytes", "use")
        for domain, keys in load_keys(file).items():
            for index, key in enumerate(keys):
                table.add_row(*_row(domain, key, signs=index == 0))
        make_console().print(table)


def _row(domain: str, key: Key, *, signs: bool) -> tuple[str, str, str, str]:
    return domain, key.fingerprint, str(len(key)), _use(signs=signs)


@keys_app.command("curve")
def curve_command(
    file: FileArgument,
    public: Annotated[bool, typer.Option("--public", help="Show the public key of an existing file.")] = False,
    debug: DebugOption = False,
) -> None:
    """Generate a key pair for encryption, and show its public key. An existing file is never overwritten.

    A network needs one pair that all members share, and each member needs one of its own.

    **Example**:

        hopline keys curve network.curve
        hopline keys curve member.curve

    and in `hopline.toml`:

        [curve]
        network_key_file = "network.curve"
        member_key_file = "member.curve"
    """
    with one_line_errors("keys curve", debug=debug):
        if not public:
            write_curve_pair(file, *new_keys())
        public_key, _ = read_curve_pair(file)
        text = public_key.decode("ascii", "backslashreplace")
        write_line(f"public {text}")
