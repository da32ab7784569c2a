"""The keys that sign the traffic, and their files: a key file, and a configuration that names the domains."""

from __future__ import annotations

from pathlib import Path

from hopline.generator.draws import Draws
from hopline.generator.faults import STRANGER
from hopline.generator.scenarios import LEDGER, LEDGER_IDENTITIES, ORDER_IDENTITIES, ORDERS
from hopline.security import KEY_SIZE, Key, key_line
from hopline.security.mac import Mac
from hopline.wire import MacAlgorithm

KEY_FILE, CONFIGURATION = "keys.txt", "hopline.toml"
ALGORITHMS = {ORDERS: MacAlgorithm.SHA256, LEDGER: MacAlgorithm.MD5, STRANGER: MacAlgorithm.SHA256}
IDENTITIES = {ORDERS: ORDER_IDENTITIES, LEDGER: LEDGER_IDENTITIES}
_KEYS = {ORDERS: 2, LEDGER: 1, STRANGER: 1}
_PRIVATE = 0o600


def make_keys(directory: Path, seed: int) -> dict[str, tuple[Mac, ...]]:
    """Draw keys, write those of the domains to files, and give what signs with each, the newest first."""
    draws = Draws(seed, 3)
    drawn = {domain: [Key(row.tobytes()) for row in draws.octets(count, KEY_SIZE)] for domain, count in _KEYS.items()}
    directory.mkdir(parents=True)
    key_file = directory / KEY_FILE
    key_file.touch(_PRIVATE)
    key_file.write_text("".join(key_line(domain, key) for domain in IDENTITIES for key in drawn[domain]))
    (directory / CONFIGURATION).write_text(_configuration(), encoding="utf-8")
    return {
        domain: tuple(Mac(key.reveal(), ALGORITHMS[domain].value) for key in keys) for domain, keys in drawn.items()
    }


def _configuration() -> str:
    sections = [f'[security]\nkey_file = "{KEY_FILE}"\n']
    for domain, identities in IDENTITIES.items():
        names = ", ".join(f'"{identity.decode()}"' for identity in identities)
        sections.append(
            f'[[security.domains]]\nname = "{domain}"\nidentities = [{names}]\n'
            f'profile = "reference"\nalgorithm = "{ALGORITHMS[domain]}"\n'
        )
    return "\n".join(sections)
