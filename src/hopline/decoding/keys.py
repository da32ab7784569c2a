"""The keys that a run is given: what they say of a message that came from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hopline.message import LocalError, Message
from hopline.security import Domain, DomainSecurity, SecurityError
from hopline.security.replay import ReplayCache
from hopline.security.scope import Scope
from hopline.security.services import is_service


class Keyring:
    """The domains and keys of a network, as its nodes have them. Without any, nothing that is signed is judged.

    Printing it shows names only. Executors get it with the function that judges, never in a query's plan.
    """

    def __init__(self, domains: Iterable[Domain] = ()) -> None:
        # Whether a message came before is for the tables to say, which have seen all of them.
        self.domains = tuple(replace(domain, refuse_replays=False) for domain in domains)
        self._scopes: dict[str, Scope] = {}
        self._homes: dict[bytes, Scope] = {}

    @classmethod
    def load(cls, path: Path) -> Keyring:
        """Read the configuration of a node: its ``[security]`` names the domains, their identities and the key file."""
        from hopline.config import read_configuration  # the driver reads it; executors need nothing of it

        security = read_configuration(path, {}).security()
        if not isinstance(security, DomainSecurity):
            raise LocalError("keys", "a configuration with domains and keys in [security]", str(path))
        return cls(security.definitions)

    def __repr__(self) -> str:
        return f"<Keyring of {', '.join(domain.name for domain in self.domains) or 'nothing'}>"

    def __bool__(self) -> bool:
        return bool(self.domains)

    @property
    def signed_identities(self) -> list[str]:
        """The identities that are signed: without a signature they are an offence."""
        return sorted(
            identity.decode("utf-8", "replace")
            for domain in self.domains
            if domain.unsigned is not True
            for identity in domain.identities - (domain.unsigned or frozenset())
        )

    def verdict(self, message: Message) -> str | None:
        """Return the verdict of the keys on a message, or None where they have none; replays are found later."""
        if not message.signature:
            return "unsigned"
        if not self.domains:
            return None
        if not self._scopes:
            self._make_ready()
        scope = self._scopes.get(message.domain)
        if scope is None:
            return "unknown_domain"
        home = self._homes.get(message.identity, scope)
        if home is not scope and not is_service(message.identity):
            return "wrong_domain"
        if not scope.signs(message.identity):
            return None
        try:
            scope.verify(message)
        except SecurityError:
            return "bad_signature"
        return "verified"

    def _make_ready(self) -> None:
        for domain in self.domains:
            scope = self._scopes[domain.name] = Scope(domain, _no_clock, ReplayCache(_no_clock))
            self._homes |= dict.fromkeys(domain.identities, scope)

    def __getstate__(self) -> tuple[Domain, ...]:
        return self.domains

    def __setstate__(self, domains: tuple[Domain, ...]) -> None:
        self.__init__(domains)  # type: ignore[misc]


def _no_clock() -> float:
    return 0.0
