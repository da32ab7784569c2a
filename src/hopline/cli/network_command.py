"""Commands that join a network for a short time: the options that they share, and how their errors are shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, get_type_hints

from hopline.cli.errors import one_line_errors
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    RendezvousOption,
    WireFormatOption,
    client_configuration,
)
from hopline.config import Configuration

Own = ParamSpec("Own")


def _shared(
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    debug: DebugOption = False,
) -> None: ...


def network_command(name: str, epilog: str = "") -> Callable[[Callable[Concatenate[Configuration, Own], None]], Any]:
    """Make a function a command with `--config`, `--rendezvous`, `--wire-format` and `--debug` beside its own options.

    The function gets the configuration that these options name, and then its own options. Its errors are shown as one
    line.

    Args:
        name: The name of the command, as in ``capture start``, for its errors.
        epilog: Follows the function's docstring in the help.
    """

    def decorate(run: Callable[Concatenate[Configuration, Own], None]) -> Any:
        @wraps(run)
        def command(config: Any, rendezvous: Any, wire_format: Any, debug: bool, **own: Any) -> None:
            with one_line_errors(name, debug=debug):
                run(client_configuration(config, rendezvous, wire_format), **own)  # type: ignore[call-arg]

        signature, annotations = _options_of(run)
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = annotations
        command.__doc__ = f"{run.__doc__}\n{epilog}" if epilog else run.__doc__
        return command

    return decorate


def _options_of(run: Callable[..., None]) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return the parameters of a command with their annotations, for typer: its own, and then the shared ones."""
    annotations = get_type_hints(run, include_extras=True) | get_type_hints(_shared, include_extras=True)
    _, *own = inspect.signature(run).parameters.values()
    shared = inspect.signature(_shared).parameters.values()
    parameters = [parameter.replace(annotation=annotations[parameter.name]) for parameter in (*own, *shared)]
    names = {parameter.name for parameter in parameters}
    return inspect.Signature(parameters), {name: hint for name, hint in annotations.items() if name in names}
