"""The actors that ``hopline node --app package.module:name`` runs."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from hopline.actors import Actor
from hopline.cli.console import UsageError
from hopline.message import HoplineError


class ApplicationError(HoplineError):
    """The application is there, and fails."""


def find_application(path: str) -> Any:
    """Import what ``package.module:name`` names, from where the command runs or from what is installed."""
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"--app: expected package.module:name, found {path!r}")
    here = str(os.getcwd())  # noqa: PTH109 - sys.path has text
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _module(module_name)
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            close = difflib.get_close_matches(part, [one for one in vars(module) if not one.startswith("_")], 1)
            hint = f"; did you mean {module_name}:{close[0]}?" if close else ""
            raise UsageError(f"--app: the module {module_name} has no {part!r}{hint}") from None
    return found


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"--app: there is no module {error.name!r} in {os.getcwd()} or installed") from None  # noqa: PTH109
        raise ApplicationError(f"--app: importing {name} failed: {error}") from error
    except Exception as error:
        raise ApplicationError(f"--app: importing {name} failed: {type(error).__name__}: {error}") from error


async def actors_of(application: Any, path: str) -> list[Actor]:
    """Give the actors of an application: one, several, or a function or class that makes them."""
    if not isinstance(application, Actor | list | tuple) and callable(application):
        try:
            application = application()
            if inspect.isawaitable(application):
                application = await application
        except Exception as error:
            raise ApplicationError(f"--app: {path} failed: {type(error).__name__}: {error}") from error
    actors = [application] if isinstance(application, Actor) else application
    if not isinstance(actors, list | tuple) or not all(isinstance(actor, Actor) for actor in actors):
        expected = "an Actor, a list of actors, or a function without parameters that returns them"
        raise UsageError(f"--app: expected {path} to be {expected}, found {_shown(actors)}")
    if not actors:
        raise UsageError(f"--app: {path} has no actors")
    return list(actors)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        strange = next(one for one in value if not isinstance(one, Actor))
        return f"a {type(value).__name__} with a {type(strange).__qualname__} in it"
    return f"{value!r}" if value is None else f"something of type {type(value).__qualname__}"
