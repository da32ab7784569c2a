"""Loading what ``--app package.module:name`` names: an application, and its actors.

An application is an actor, a list of actors, an async context manager that yields either, or a function or class that
returns any of these. A function may be `async def`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from types import ModuleType, TracebackType
from typing import Any

from hopline.actors import Actor
from hopline.cli.errors import UsageError
from hopline.message import HoplineError

_EXAMPLE = "such as --app shop:app for `app` in shop.py"
_EXPECTED = "an Actor, a list of actors, an async context manager that yields them, or a function that returns them"


class ApplicationError(HoplineError):
    """The application exists, but importing, calling or entering it failed."""


def require_path(app: str | None) -> str:
    """Return the value of ``--app``.

    Raises:
        UsageError: It was not given, or is not of the form ``package.module:name``.
    """
    if app is None:
        raise UsageError(f"--app is missing: name the application, {_EXAMPLE}")
    module_name, colon, name = app.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"--app: expected package.module:name, {_EXAMPLE}; found {app!r}")
    return app


def find_application(path: str) -> Any:
    """Import the object that ``package.module:name`` names, from the current directory or the installed packages.

    Raises:
        UsageError: If there is no such module or name.
        ApplicationError: If the module fails while it is imported.
    """
    module_name, _, name = path.partition(":")
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


@asynccontextmanager
async def actors_of(application: Any, path: str) -> AsyncIterator[list[Actor]]:
    """Enter an application, and yield its actors. Leave it with the block, in which their node is started and stopped.

    Args:
        application: What `find_application` returned.
        path: Its name, for error messages.

    Raises:
        UsageError: If it is no application, or has no actors.
        ApplicationError: If it fails while it is called, entered or left.
    """
    async with AsyncExitStack() as stack:
        application = await _called(application, path)
        application = await _entered(application, path, stack)
        yield _actors(application, path)


async def _called(application: Any, path: str) -> Any:
    """Return what a function or class returns, and anything else as it is."""
    is_factory = callable(application) and not isinstance(application, Actor | AbstractAsyncContextManager)
    if not is_factory:
        return application
    try:
        result = application()
        return await result if inspect.isawaitable(result) else result
    except Exception as error:
        raise _failed(path, "failed", error) from error


async def _entered(application: Any, path: str, stack: AsyncExitStack) -> Any:
    """Return what an async context manager yields, and anything else as it is."""
    if isinstance(application, Actor) or not isinstance(application, AbstractAsyncContextManager):
        return application

    async def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        try:
            return await application.__aexit__(kind, error, trace)
        except Exception as failure:
            if failure is error:  # of the block, and not of the application
                raise
            raise _failed(path, "failed while it was left", failure) from failure

    try:
        entered = await application.__aenter__()
    except Exception as error:
        raise _failed(path, "failed", error) from error
    stack.push_async_exit(leave)
    return entered


def _failed(path: str, how: str, error: Exception) -> ApplicationError:
    return ApplicationError(f"--app: {path} {how}: {type(error).__name__}: {error}")


def _actors(application: Any, path: str) -> list[Actor]:
    actors = [application] if isinstance(application, Actor) else application
    is_sequence = isinstance(actors, list | tuple)
    if not is_sequence or not all(isinstance(actor, Actor) for actor in actors):
        raise UsageError(f"--app: expected {path} to be {_EXPECTED}; found {_described(actors)}")
    if not actors:
        raise UsageError(f"--app: {path} has no actors")
    return list(actors)


def _described(found: Any) -> str:
    if found is None:
        return "None"
    if isinstance(found, type):
        return f"the class {found.__qualname__}"
    if isinstance(found, AsyncGenerator):
        return "an async generator: decorate the function with @contextlib.asynccontextmanager"
    if isinstance(found, AbstractContextManager):
        return f"a {type(found).__qualname__}, a context manager that is not async"
    if isinstance(found, list | tuple):
        entry = next(entry for entry in found if not isinstance(entry, Actor))
        return f"a {type(found).__name__} with {_entry(entry)} in it"
    return f"something of type {type(found).__qualname__}"


def _entry(entry: Any) -> str:
    if isinstance(entry, type) and issubclass(entry, Actor):
        return f"the class {entry.__qualname__} instead of {entry.__qualname__}()"
    return f"something of type {type(entry).__qualname__}"
