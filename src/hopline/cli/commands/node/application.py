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
from hopline.cli.errors import UsageError
from hopline.message import HoplineError


class ApplicationError(HoplineError):
    """The application exists, but importing or calling it failed."""


def find_application(path: str) -> Any:
    """Import the object that ``package.module:name`` names, from the current directory or the installed packages.

    Raises:
        UsageError: If the path is malformed, or there is no such module or name.
        ApplicationError: If the module fails while it is imported.
    """
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"--app: expected package.module:name, found {path!r}")
    working_directory = os.getcwd()  # noqa: PTH109 - sys.path holds text
    if working_directory not in sys.path:
        sys.path.insert(0, working_directory)
    module = _import(module_name)
    application: Any = module
    for part in name.split("."):
        try:
            application = getattr(application, part)
        except AttributeError:
            hint = _hint(module, part)
            raise UsageError(f"--app: module {module_name} has no {part!r}{hint}") from None
    return application


def _hint(module: ModuleType, name: str) -> str:
    public_names = [candidate for candidate in vars(module) if not candidate.startswith("_")]
    matches = difflib.get_close_matches(name, public_names, 1)
    if not matches:
        return ""
    closest = matches[0]
    return f"; did you mean {module.__name__}:{closest}?"


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name
        is_named_module = missing is not None and f"{name}.".startswith(f"{missing}.")
        if is_named_module:
            places = f"in {os.getcwd()} or among the installed packages"  # noqa: PTH109
            raise UsageError(f"--app: there is no module {missing!r} {places}") from None
        raise ApplicationError(f"--app: importing {name} failed: {error}") from error
    except Exception as error:
        kind = type(error).__name__
        raise ApplicationError(f"--app: importing {name} failed: {kind}: {error}") from error


async def actors_of(application: Any, path: str) -> list[Actor]:
    """Return the actors of an application: an actor, a list of them, or a function or class that returns either.

    Args:
        application: What `find_application` returned. A function may be a coroutine function.
        path: Its name, for error messages.

    Raises:
        UsageError: If it is none of these, or has no actors.
        ApplicationError: If the function fails.
    """
    is_factory = callable(application) and not isinstance(application, Actor | list | tuple)
    if is_factory:
        application = await _call(application, path)
    actors = [application] if isinstance(application, Actor) else application
    is_sequence = isinstance(actors, list | tuple)
    if not is_sequence or not all(isinstance(actor, Actor) for actor in actors):
        expected = "an Actor, a list of actors, or a function without parameters that returns them"
        raise UsageError(f"--app: expected {path} to be {expected}, found {_describe(actors)}")
    if not actors:
        raise UsageError(f"--app: {path} has no actors")
    return list(actors)


async def _call(factory: Any, path: str) -> Any:
    try:
        result = factory()
        if inspect.isawaitable(result):
            result = await result
    except Exception as error:
        kind = type(error).__name__
        raise ApplicationError(f"--app: {path} failed: {kind}: {error}") from error
    return result


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, list | tuple):
        foreign = next(entry for entry in value if not isinstance(entry, Actor))
        container = type(value).__name__
        entry_type = type(foreign).__qualname__
        return f"a {container} with a {entry_type} in it"
    return f"something of type {type(value).__qualname__}"
