"""Which identities belong to which domain, as the generated configuration says."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hopline.wire import MacAlgorithm


class Domains:
    """The domains of a configuration."""

    def __init__(self, folder: Path) -> None:
        sections = tomllib.loads((folder / "hopline.toml").read_text())["security"]["domains"]
        self.home = {identity.encode(): one["name"] for one in sections for identity in one["identities"]}
        self.algorithms = {one["name"]: MacAlgorithm(one["algorithm"]) for one in sections}
