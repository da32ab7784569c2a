"""The pytest plugin of Hopline: fixtures that run actors in virtual time, and tests that are `async def`.

It is a package of its own, because pytest imports every plugin at its start: this one imports nothing of Hopline until
a test asks for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hopline import Node
    from hopline.testing import InProcessNetwork

    Run = Callable[[Coroutine[Any, Any, Any]], Any]

_RUN = "hopline_run"
_MARKER = "hopline"
_OTHERS = ("asyncio", "anyio", "trio", "twisted")  # markers of tests that other plugins run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the seed."""
    group = parser.getgroup("hopline")
    group.addoption(
        "--hopline-seed", type=int, default=0, help="the seed of the networks of the fixture hopline_network"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", f"{_MARKER}: run this `async def` test in virtual time")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the fixture that runs them to tests with the marker."""
    if isinstance(item, pytest.Function) and item.get_closest_marker(_MARKER) and _RUN not in item.fixturenames:
        item.fixturenames.append(_RUN)


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that has a fixture of this plugin, or its marker. Leave all others alone."""
    run: Any = pyfuncitem.funcargs.get(_RUN)
    if run is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def hopline_run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return a function that runs a coroutine in virtual time, on the event loop of the other fixtures of Hopline."""
    others = [name for name in _OTHERS if request.node.get_closest_marker(name)]
    if others and inspect.iscoroutinefunction(inspect.unwrap(request.function)):
        pytest.fail(
            f"the marker {others[0]!r} has this test run on another event loop than that of Hopline's fixtures: use "
            "`async with hopline.testing.node(...) as node` within the test instead of a fixture, or remove the marker "
            "(pytest-asyncio adds it in its mode auto, and not in its mode strict)",
            pytrace=False,
        )
    from hopline.testing import VirtualRunner  # only when a test needs it: importing takes a while

    with VirtualRunner() as runner:
        yield runner.run


@pytest.fixture
def hopline_node(hopline_run: Run) -> Iterator[Node]:
    """Return a node that runs in virtual time, without actors: add yours with `hopline_node.add`."""
    from hopline.testing import node

    context = node()
    yield hopline_run(context.__aenter__())
    hopline_run(context.__aexit__(None, None, None))


@pytest.fixture
def hopline_network(hopline_run: Run, request: pytest.FixtureRequest) -> Iterator[InProcessNetwork]:
    """Return a network of nodes in virtual time, without nodes: add yours with `await hopline_network.add`."""
    from hopline.testing import network

    seed = request.config.getoption("--hopline-seed")
    request.node.add_report_section("setup", "hopline", f"--hopline-seed {seed}")
    context = network(seed)
    yield hopline_run(context.__aenter__())
    hopline_run(context.__aexit__(None, None, None))
