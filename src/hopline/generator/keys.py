"""The keys that sign the traffic, and their files: a key file, and a configuration that names the domains."""

from __future__ import annotations

from pathlib import Path

from hopline.generator.faults import UNKNOWN_SIGNER
from hopline.generator.randomness import RandomStream
from hopline.generator.scenarios import LEDGER, LEDGER_IDENTITIES, ORDER_IDENTITIES, ORDERS
from hopline.security import KEY_SIZE, Key, key_line
from hopline.security.mac import Mac
from hopline.wire import MacAlgorithm

KEY_FILE = "keys.txt"
CONFIGURATION = "hopline.toml"
ALGORITHMS = {
    ORDERS: MacAlgorithm.SHA256,
    LEDGER: MacAlgorithm.MD5,
    UNKNOWN_SIGNER: MacAlgorithm.SHA256,
}
IDENTITIES = {
    ORDERS: ORDER_IDENTITIES,
    LEDGER: LEDGER_IDENTITIES,
}
_KEY_COUNTS = {
    ORDERS: 2,
    LEDGER: 1,
    UNKNOWN_SIGNER: 1,
}
_OWNER_ONLY = 0o600


def make_keys(directory: Path, seed: int) -> dict[str, tuple[Mac, ...]]:
    """Make random keys, and write those of the domains to files.

    Returns:
        What signs with each key, by the name of the signer, newest first.
    """
    stream = RandomStream(seed, 3)
    keys: dict[str, list[Key]] = {}
    for signer, count in _KEY_COUNTS.items():
        secrets = stream.octets(count, KEY_SIZE)
        keys[signer] = [Key(secret.tobytes()) for secret in secrets]
    directory.mkdir(parents=True)
    _write_key_file(directory / KEY_FILE, keys)
    configuration = directory / CONFIGURATION
    configuration.write_text(_configuration(), encoding="utf-8")
    return {signer: _macs(signer, signer_keys) for signer, signer_keys in keys.items()}


def _write_key_file(path: Path, keys: dict[str, list[Key]]) -> None:
    lines: list[str] = []
    for domain in IDENTITIES:
        domain_lines = [key_line(domain, key) for key in keys[domain]]
        lines.extend(domain_lines)
    path.touch(_OWNER_ONLY)
    path.write_text("".join(lines))


def _macs(signer: str, keys: list[Key]) -> tuple[Mac, ...]:
    algorithm = ALGORITHMS[signer].value
    return tuple(Mac(key.reveal(), algorithm) for key in keys)


def _configuration() -> str:
    sections = [f'[security]\nkey_file = "{KEY_FILE}"\n']
    for domain, identities in IDENTITIES.items():
        quoted = [f'"{identity.decode()}"' for identity in identities]
        names = ", ".join(quoted)
        lines = [
            "[[security.domains]]",
            f'name = "{domain}"',
            f"identities = [{names}]",
            'profile = "reference"',
            f'algorithm = "{ALGORITHMS[domain]}"',
            "",
        ]
        sections.append("\n".join(lines))
    return "\n".join(sections)
