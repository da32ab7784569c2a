"""What `--app` names: every form that an application may have, and what is said about anything else."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from hopline import Actor
from hopline.cli.app_loader import ApplicationError, actors_of, find_application, require_path
from hopline.cli.errors import UsageError
from hopline.message import HoplineError
from tests.cli.commands import APPLICATION

FORMS = """
from contextlib import asynccontextmanager, contextmanager

from hopline import Actor

log = []


class Plain(Actor): ...


class Entered(Actor):
    async def __aenter__(self): raise AssertionError("an actor is not entered")
    async def __aexit__(self, *_): ...


actor = Plain()
entered = Entered()
several = [Plain(), Plain()]
nothing = []
classes = [Plain(), Plain]
strangers = (Plain(), 5)


def make(): return [Plain(), Plain()]


async def make_later(): return Plain()


@asynccontextmanager
async def service():
    log.append("opened")
    try:
        yield [Plain(), Plain()]
    finally:
        log.append("closed")


opened = service()


async def service_later(): return service()


class Service:
    async def __aenter__(self): return Plain()
    async def __aexit__(self, *_): ...


@asynccontextmanager
async def broken():
    raise ConnectionError("no database")
    yield Plain()


@asynccontextmanager
async def broken_at_the_end():
    yield Plain()
    raise ConnectionError("the database has gone")


@contextmanager
def not_async():
    yield Plain()


async def undecorated():
    yield Plain()


def fail(): raise ConnectionError("no database")


def forgotten(): Plain()


def class_of_actors(): return Plain
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "an_application.py").write_text(APPLICATION)
    (tmp_path / "a_broken_one.py").write_text("import nowhere_to_be_found")
    (tmp_path / "a_failing_one.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def forms(tmp_path: Path) -> str:
    """Write the forms below a name of its own: a module is imported once."""
    name = f"forms_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FORMS)
    return name


async def actors(path: str) -> list[Actor]:
    async with actors_of(find_application(path), path) as found:
        return found


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("actor", 1),
        ("entered", 1),
        ("several", 2),
        ("Plain", 1),
        ("make", 2),
        ("make_later", 1),
        ("service", 2),
        ("opened", 2),
        ("service_later", 2),
        ("Service", 1),
    ],
)
def test_an_application_has_many_forms(forms: str, name: str, count: int) -> None:
    found = asyncio.run(actors(f"{forms}:{name}"))
    assert len(found) == count
    assert all(isinstance(actor, Actor) for actor in found)


def test_a_context_manager_is_left_with_the_block(forms: str) -> None:
    log = find_application(f"{forms}:log")

    async def run() -> None:
        async with actors_of(find_application(f"{forms}:service"), "service"):
            assert log == ["opened"]
        assert log == ["opened", "closed"]

    asyncio.run(run())


def test_an_error_of_the_block_stays_what_it_is(forms: str) -> None:
    log = find_application(f"{forms}:log")

    async def run() -> None:
        async with actors_of(find_application(f"{forms}:service"), "service"):
            raise KeyError("of the block")

    with pytest.raises(KeyError, match="of the block"):
        asyncio.run(run())
    assert log == ["opened", "closed"]


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("nothing", UsageError, "has no actors"),
        ("classes", UsageError, "found a list with the class Plain instead of Plain() in it"),
        ("strangers", UsageError, "found a tuple with something of type int in it"),
        ("log", UsageError, "has no actors"),
        ("forgotten", UsageError, "or a function that returns them; found None"),
        ("class_of_actors", UsageError, "found the class Plain"),
        ("not_async", UsageError, "found a _GeneratorContextManager, a context manager that is not async"),
        ("undecorated", UsageError, "found an async generator: decorate the function with @contextlib.async"),
        ("fail", ApplicationError, ":fail failed: ConnectionError: no database"),
        ("broken", ApplicationError, ":broken failed: ConnectionError: no database"),
        ("broken_at_the_end", ApplicationError, "failed while it was left: ConnectionError: the database has gone"),
    ],
)
def test_anything_else_is_named(forms: str, name: str, error: type[HoplineError], told: str) -> None:
    with pytest.raises(error) as caught:
        asyncio.run(actors(f"{forms}:{name}"))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("path", "error", "told"),
    [
        ("nowhere.at_all:app", UsageError, "--app: there is no module 'nowhere' in "),
        ("an_application:Greater", UsageError, "has no 'Greater'; did you mean an_application:Greeter?"),
        ("an_application:number", UsageError, "expected an_application:number to be an Actor, a list of actors, an a"),
        ("a_broken_one:app", ApplicationError, "importing a_broken_one failed: No module named 'nowhere_to_be_found'"),
        ("a_failing_one:make", ApplicationError, "importing a_failing_one failed: ZeroDivisionError"),
    ],
)
def test_a_wrong_path_is_said_in_words(path: str, error: type[HoplineError], told: str) -> None:
    with pytest.raises(error) as caught:
        asyncio.run(actors(path))
    assert told in str(caught.value)


def test_the_option_names_a_module_and_what_is_in_it() -> None:
    assert require_path("shop.orders:app") == "shop.orders:app"
    for app, problem in {
        None: "--app is missing: name the application, such as --app shop:app",
        "greeter": "--app: expected package.module:name, such as --app shop:app for `app` in shop.py; found 'greeter'",
        "greeter:": "found 'greeter:'",
        ":app": "found ':app'",
    }.items():
        with pytest.raises(UsageError, match=re.escape(problem)):
            require_path(app)
