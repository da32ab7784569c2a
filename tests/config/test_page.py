"""The page on networks: its table of keys is that of the settings, and its blocks are right."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from tools import configuration_page

from hopline.config.schema import SECTIONS
from hopline.node import metrics as metrics_module

PAGE = configuration_page.TARGET.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_table_of_keys_is_that_of_the_settings() -> None:
    assert configuration_page.generate() == PAGE, "docs/network.md is stale: make generate"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_says_what_it_is_for(section: str) -> None:
    for name, default, meaning in configuration_page.rows(SECTIONS[section], section):
        assert meaning, name
        assert default, name


def test_the_python_blocks_run() -> None:
    variables: dict[str, Any] = {"__name__": "network_page"}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, "docs/network.md", "exec"), variables)  # noqa: S102


def test_the_toml_blocks_have_only_keys_that_there_are() -> None:
    known = {name for section, keys in SECTIONS.items() for name, _, _ in configuration_page.rows(keys, section)}
    for language, block in BLOCKS:
        if language == "toml":
            for section, table in tomllib.loads(block).items():
                assert {f"{section}.{key}" for key in table} <= known


def test_the_page_names_every_metric() -> None:
    assert metrics_module.__file__ is not None
    with open(metrics_module.__file__, encoding="utf-8") as file:  # noqa: PTH123
        named = set(re.findall(r'"(hopline_\w+)"', file.read()))
    assert len(named) > 20
    for name in named:
        assert name in PAGE
