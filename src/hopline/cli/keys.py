"""``hopline keys``: make and look at key files. A secret is never shown."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hopline.cli.console import UsageError, make_console, one_line_errors, say
from hopline.cli.options import DebugOption
from hopline.config import read_curve_pair, write_curve_pair
from hopline.security import Key, key_line, load_keys, new_key
from hopline.transport import new_keys

PRIVATE = 0o600

keys_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Make and look at key files. They are readable by their owner only, and no secret is ever shown.",
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The key file.")]


@keys_app.command("new")
def new_command(
    file: FileArgument,
    domain: Annotated[str, typer.Argument(help="The domain that the key is for.")],
    verify_only: Annotated[
        bool,
        typer.Option("--verify-only", help="Put it behind the domain's other keys: it does not sign yet."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Draw a key for a domain, and put it into a key file, which is made if it is not there.

    The first key of a domain signs, each of them verifies. Nodes that run take a changed file within a second.

    **Example**, to change the key of a running network without losing a message:

        hopline keys new keys.txt orders --verify-only    # copy the file to every node: all know the new key
        hopline keys use keys.txt FINGERPRINT             # copy it again: all sign with the new key
    """
    with one_line_errors("keys new", debug=debug):
        if not domain or len(domain.split()) != 1 or domain.startswith("#"):
            raise UsageError(f"expected the name of a domain, without spaces and no comment, found {domain!r}")
        known = list(load_keys(file).get(domain, ())) if file.exists() else []
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        key = new_key()
        at = [index for index, line in enumerate(lines) if line.split()[:1] == [domain]]
        place = len(lines) if not at else at[-1] + 1 if verify_only else at[0]
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        _replace(file, "".join([*lines[:place], key_line(domain, key), *lines[place:]]))
        signs = not (verify_only and known)
        say(f"{file}: key {key.fingerprint} of {domain} {'signs and verifies' if signs else 'verifies'}")


@keys_app.command("use")
def use_command(
    file: FileArgument,
    fingerprint: Annotated[str, typer.Argument(help="Of the key, as `hopline keys show` has it.")],
    debug: DebugOption = False,
) -> None:
    """Put a key before the others of its domain, so that it signs.

    **Example**:

        hopline keys use keys.txt 1c3f02ab
    """
    with one_line_errors("keys use", debug=debug):
        found = [
            (domain, key) for domain, keys in load_keys(file).items() for key in keys if key.fingerprint == fingerprint
        ]
        if len(found) != 1:
            raise UsageError(f"{file}: expected the fingerprint of one key in it, found {fingerprint!r}")
        ((domain, key),) = found
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        of_domain = [index for index, line in enumerate(lines) if line.split()[:1] == [domain]]
        kept = [line for index, line in enumerate(lines) if index not in of_domain]
        others = [key_line(domain, other) for other in load_keys(file)[domain] if other != key]
        kept[of_domain[0] : of_domain[0]] = [key_line(domain, key), *others]
        _replace(file, "".join(kept))
        say(f"{file}: key {key.fingerprint} of {domain} signs and verifies")


def _replace(file: Path, content: str) -> None:
    """Write a file at once, so that a node that reads it meanwhile sees the old one or the new one."""
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
    """Show the domains and the fingerprints of a key file. Two nodes with the same fingerprints have the same keys.

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
    return domain, key.fingerprint, str(len(key)), "signs and verifies" if signs else "verifies"


@keys_app.command("curve")
def curve_command(
    file: FileArgument,
    public: Annotated[bool, typer.Option("--public", help="Show the public key of a file that is there.")] = False,
    debug: DebugOption = False,
) -> None:
    """Make a key pair for encryption, and show its public key. One that is there is never overwritten.

    A network needs one pair that all its members have, and each member one of its own.

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
        say(f"public {read_curve_pair(file)[0].decode('ascii', 'backslashreplace')}")
