"""The page on the configuration: its table of keys is that of the settings."""

from __future__ import annotations

import pytest
from tools import configuration_page

from hopline.config.schema import SECTIONS


def test_the_table_of_keys_is_that_of_the_settings() -> None:
    page = configuration_page.TARGET.read_text(encoding="utf-8")
    assert configuration_page.generate() == page, "docs/reference/configuration.md is stale: make generate"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_says_what_it_is_for(section: str) -> None:
    for name, default, meaning in configuration_page.rows(SECTIONS[section], section):
        assert meaning, name
        assert default, name
