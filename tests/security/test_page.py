"""The page on security: its key file can be read, and it names every setting and every reason."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from hopline.security import Domain, KeyFileError, SecurityReason, load_keys

PAGE = (Path(__file__).parents[2] / "docs/explanation/security.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_its_key_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(next(block for block in blocks("text") if block.startswith("# orders")))
    path.chmod(0o640)
    with pytest.raises(KeyFileError):
        load_keys(path)
    path.chmod(0o600)
    keys = load_keys(path)
    assert {name: len(of_domain) for name, of_domain in keys.items()} == {"orders": 2, "payments": 1}
    assert all(len(key) == 32 for of_domain in keys.values() for key in of_domain)


def test_it_names_every_setting_and_its_default() -> None:
    table = PAGE.split("| setting | default | what it is |")[1].split("\n\n")[0]
    told = dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", table, flags=re.MULTILINE))
    for name, parameter in inspect.signature(Domain).parameters.items():
        default = parameter.default
        if default in ((), inspect.Parameter.empty):
            expected = ""
        elif isinstance(default, bool):
            expected = "no"
        else:
            expected = f"`{default}`" if isinstance(default, str) else f"{default:,g}"
        assert told[name].strip() == expected


def test_it_names_every_reason() -> None:
    table = PAGE.split("| reason | meaning |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) == {reason.value for reason in SecurityReason}
