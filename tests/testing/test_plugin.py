"""The pytest plugin: its fixtures in sync and async tests, beside other plugins, and what it costs when unused."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
IS_INSTALLED = any(entry.value == "pytest_hopline" for entry in entry_points(group="pytest11"))
OPTIONS = ["-W", "error", "-p", "no:randomly", *([] if IS_INSTALLED else ["-p", "pytest_hopline"])]
ACTORS = """
    import asyncio
    import pytest
    from hopline import Actor, Payload, Request, handler
    from hopline.testing import context, expect, node

    class Greeting(Payload):
        text: str

    class Greet(Request[Greeting]):
        name: str

    class Greeter(Actor):
        @handler
        async def greet(self, greet: Greet) -> Greeting:
            await asyncio.sleep(3600)
            return Greeting(f"Hello, {greet.name}!")

    def greet(node):
        return node.hub.ask(Greet("Ada"), timeout=4000)
"""


def run_tests(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(f"{ACTORS}\n{tests}")
    return pytester.runpytest_inprocess(*OPTIONS, *options)


def test_a_test_without_async_runs_coroutines_with_a_fixture(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    def test_greeting(hopline_node, hopline_run):
        hopline_node.add(Greeter())
        assert hopline_run(greet(hopline_node)) == Greeting("Hello, Ada!")
        expect(hopline_node).sent(Greeting, count=1)
    """,
    )
    result.assert_outcomes(passed=1)


def test_an_async_test_needs_no_other_plugin(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    async def test_greeting(hopline_node):
        hopline_node.add(Greeter())
        assert await greet(hopline_node) == Greeting("Hello, Ada!")

    @pytest.mark.parametrize("name", ["Ada", "Grace"])
    async def test_with_a_parameter(hopline_network, name):
        await hopline_network.add("greeter", Greeter())
        client = await hopline_network.add("client")
        assert await greet(client) == Greeting("Hello, Ada!")
        assert name in ("Ada", "Grace")
    """,
    )
    result.assert_outcomes(passed=3)


def test_a_failing_async_test_fails_and_shows_what_was_sent(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    async def test_greeting(hopline_node):
        hopline_node.add(Greeter())
        await greet(hopline_node)
        expect(hopline_node).sent(Greeting("Hello, Grace!"))
    """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*expected at least one Greeting(text='Hello, Grace!'), found 0; what was sent:",
            "E*1. Greet(name='Ada')",
            "E*2. Greeting(text='Hello, Ada!')",
        ]
    )
    result.stdout.no_fnmatch_line("*expectations.py*")


def test_the_marker_runs_a_test_without_fixtures(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    @pytest.mark.hopline
    async def test_a_long_sleep():
        await asyncio.sleep(10_000)
        async with node(Greeter()) as greeter:
            await greet(greeter)

    @pytest.mark.hopline
    class TestClass:
        async def test_in_a_class(self):
            await asyncio.sleep(10_000)
    """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=2)


def test_every_test_has_a_node_of_its_own_that_is_stopped_after_it(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    nodes = []

    @pytest.mark.parametrize("turn", [1, 2])
    def test_turn(hopline_node, turn):
        assert hopline_node.is_running
        assert not hopline_node.actors
        hopline_node.add(Greeter())
        nodes.append(hopline_node)

    def test_end():
        assert len(set(nodes)) == 2
        assert not any(node.is_running for node in nodes)
    """,
    )
    result.assert_outcomes(passed=3)


def test_the_seed_of_a_network_is_shown_when_a_test_fails_and_can_be_chosen(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    async def test_seed(hopline_network):
        assert hopline_network.seed != 7
    """,
        "--hopline-seed=7",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["--hopline-seed 7"])


def test_tests_of_other_plugins_are_left_alone(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_anyio(anyio_backend):
        async with node(Greeter()) as greeter:
            assert await greet(greeter) == Greeting("Hello, Ada!")

    async def test_nobody_runs_this():
        pass

    def test_plain():
        assert context().message
    """,
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])


def test_a_fixture_on_the_loop_of_another_plugin_is_refused_with_what_to_do(pytester: pytest.Pytester) -> None:
    result = run_tests(
        pytester,
        """
    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_both(anyio_backend, hopline_node):
        pass
    """,
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*async with hopline.testing.node(...) as node*"])


def test_the_plugin_is_declared_and_imports_nothing_of_hopline_by_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"hopline": "pytest_hopline"}
    program = "import sys, pytest_hopline; sys.exit('hopline' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
