"""The keys of a run, and their verdicts on messages from other nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hopline.message import ArgumentError, Message
from hopline.security import Domain, DomainSecurity, SecurityError
from hopline.security.domain_signer import DomainSigner
from hopline.security.replay import ReplayCache
from hopline.security.services import is_service


class Keyring:
    """The domains and keys of a network, as its nodes have them. Without any, signatures get no verdict.

    Its representation shows names only. Executors get it with the function that verifies, never in a query's plan.
    """

    def __init__(self, domains: Iterable[Domain] = ()) -> None:
        # The tables find replays: they have all messages, a keyring sees one at a time.
        self.domains = tuple(replace(domain, refuse_replays=False) for domain in domains)
        self._signers: dict[str, DomainSigner] = {}
        self._homes: dict[bytes, DomainSigner] = {}

    @classmethod
    def load(cls, path: Path) -> Keyring:
        """Return the domains and keys that a node's configuration has under ``[security]``.

        Raises:
            ArgumentError: The configuration has no domains.
        """
        from hopline.config import read_configuration  # the driver reads it; executors need nothing of it

        security = read_configuration(path, {}).security()
        if not isinstance(security, DomainSecurity):
            raise ArgumentError("keys", "a configuration with domains and keys in [security]", str(path))
        return cls(security.definitions)

    def __repr__(self) -> str:
        return f"<Keyring of {', '.join(domain.name for domain in self.domains) or 'nothing'}>"

    def __bool__(self) -> bool:
        return bool(self.domains)

    @property
    def signed_identities(self) -> list[str]:
        """The identities that must be signed."""
        identities: set[bytes] = set()
        for domain in self.domains:
            if domain.unsigned is not True:
                identities |= domain.identities - (domain.unsigned or frozenset())
        return sorted(identity.decode("utf-8", "replace") for identity in identities)

    def verdict(self, message: Message) -> str | None:
        """Return the verdict on a message's signature, or None without keys for it. Replays are found elsewhere."""
        if not message.signature:
            return "unsigned"
        if not self.domains:
            return None
        if not self._signers:
            self._make_ready()
        signer = self._signers.get(message.domain)
        if signer is None:
            return "unknown_domain"
        home = self._homes.get(message.identity, signer)
        if home is not signer and not is_service(message.identity):
            return "wrong_domain"
        if not signer.signs(message.identity):
            return None
        try:
            signer.verify(message)
        except SecurityError:
            return "bad_signature"
        return "verified"

    def _make_ready(self) -> None:
        for domain in self.domains:
            signer = self._signers[domain.name] = DomainSigner(domain, _no_clock, ReplayCache(_no_clock))
            self._homes |= dict.fromkeys(domain.identities, signer)

    def __getstate__(self) -> tuple[Domain, ...]:
        return self.domains

    def __setstate__(self, domains: tuple[Domain, ...]) -> None:
        self.__init__(domains)  # type: ignore[misc]


def _no_clock() -> float:
    return 0.0
