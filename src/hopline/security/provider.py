"""The security of a node: none, or that of its domains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import msgspec

from hopline.message import LocalError, Message, get_logger
from hopline.security.domain import Domain, keys_of
from hopline.security.errors import SecurityError, SecurityReason
from hopline.security.key import Key
from hopline.security.key_file import KeyRing
from hopline.security.replay import ReplayCache
from hopline.security.scope import Scope
from hopline.security.services import LOCAL_ONLY, QUESTIONS, SERVICES, is_for_any_domain, is_service

_log = get_logger("hopline.security")


class Security(Protocol):
    """What the rest of a node asks for. Messages that stay on the node are neither protected nor checked."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that are allowed here."""
        ...

    def is_allowed(self, domain: str) -> bool:
        """Tell whether messages of the domain may be sent and received here."""
        ...

    def signs(self, domain: str, identity: bytes) -> bool:
        """Return whether messages of an identity are signed in a domain."""
        ...

    def domain_of(self, identity: bytes) -> str:
        """Give the domain that an identity belongs to, or raise `SecurityError` (unmapped identity)."""
        ...

    def protect(self, message: Message) -> Message:
        """Label and sign a message of the data plane: for each sending to another node, forwarding included."""
        ...

    def protect_in(self, message: Message, domain: str) -> Message:
        """Label and sign a message of the control plane, in the domain that it speaks of."""
        ...

    def check(self, message: Message) -> None:
        """Raise `SecurityError` unless a message of the data plane may be taken from the network."""
        ...

    def check_control(self, message: Message) -> None:
        """Raise `SecurityError` unless a message of the control plane may be taken from the network."""
        ...


class NoSecurity:
    """One domain without a name, in which everything is allowed and nothing is signed.

    Only what never comes from outside is refused: that needs no key.
    """

    domains: tuple[str, ...] = ("",)

    def is_allowed(self, domain: str) -> bool:  # noqa: ARG002
        """Allow everything."""
        return True

    def signs(self, domain: str, identity: bytes) -> bool:  # noqa: ARG002
        """Sign nothing."""
        return False

    def domain_of(self, identity: bytes) -> str:  # noqa: ARG002
        """Put every identity into the domain without a name."""
        return ""

    def protect(self, message: Message) -> Message:
        """Leave the message as it is: it may be on its way between others, who use domains."""
        return message

    def protect_in(self, message: Message, domain: str) -> Message:
        """Label the message."""
        return message if message.domain == domain else msgspec.structs.replace(message, domain=domain)

    def check(self, message: Message) -> None:
        """Refuse only what never comes from outside."""
        _refuse_local_only(message)

    def check_control(self, message: Message) -> None:
        """Refuse only what never comes from outside."""
        _refuse_local_only(message)


class _Plan:
    """The domains in force, by name and by identity. Never changed: another one takes its place at once."""

    __slots__ = ("first", "for_questions", "homes", "scopes")

    def __init__(self, scopes: Iterable[Scope]) -> None:
        self.scopes: dict[str, Scope] = {}
        self.homes: dict[bytes, Scope] = {}
        for scope in scopes:
            if scope.name in self.scopes:
                raise LocalError("domains", "each domain once", scope.name)
            self.scopes[scope.name] = scope
            for identity in scope.domain.identities:
                other = self.homes.setdefault(identity, scope)
                if other is not scope:
                    expected = f"each identity in one domain, not in {other.name!r} and {scope.name!r}"
                    raise LocalError("identities", expected, identity)
        if not self.scopes:
            raise LocalError("domains", "at least one domain, or NoSecurity()", ())
        self.first = next(iter(self.scopes.values()))
        # What a node tells of itself is not for strangers, if anything here is not.
        signed = (scope for scope in self.scopes.values() if scope.domain.unsigned is not True)
        self.for_questions = next(signed, self.first)
        for identity in SERVICES:
            self.homes.setdefault(identity, self.for_questions if identity in QUESTIONS else self.first)

    def home_of(self, identity: bytes, label: str = "") -> Scope:
        home = self.homes.get(identity)
        if home is not None:
            return home
        if is_service(identity):
            return self.for_questions
        raise SecurityError(SecurityReason.UNMAPPED_IDENTITY, label, identity)


class DomainSecurity:
    """Domains with keys. Not for several threads at once.

    `clock` gives seconds since 1970, such as `time.time`. The first domain is also that of the protocol's own messages
    (exceptions, receipts, pings), unless they are mapped. A node that runs with it follows the file of its `key_ring`:
    keys that are changed there are in force a second later.
    """

    def __init__(
        self, domains: Iterable[Domain], *, clock: Callable[[], float], key_ring: KeyRing | None = None
    ) -> None:
        self.key_ring = key_ring
        self._clock = clock
        self._plan = _Plan(Scope(domain, clock, ReplayCache(clock)) for domain in domains)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that are defined here."""
        return tuple(self._plan.scopes)

    @property
    def definitions(self) -> tuple[Domain, ...]:
        """The domains as they are in force now."""
        return tuple(scope.domain for scope in self._plan.scopes.values())

    def is_allowed(self, domain: str) -> bool:
        """Tell whether the domain is defined here."""
        return domain in self._plan.scopes

    def signs(self, domain: str, identity: bytes) -> bool:
        """Return whether messages of an identity are signed in a domain; in one that is not defined here, none are."""
        scope = self._plan.scopes.get(domain)
        return scope is not None and scope.signs(identity)

    def domain_of(self, identity: bytes) -> str:
        """Give the domain that an identity belongs to, in any version and partition."""
        return self._plan.home_of(identity).name

    def protect(self, message: Message) -> Message:
        """Label and sign a message for another node. One that is on its way keeps a sealed signature that is right.

        The protocol's own messages keep the label of a domain in which they are signed here, so that an exception can
        answer in the domain of the request: whoever asked may have no key of another.
        """
        plan, identity, label = self._plan, message.identity, message.domain
        home = plan.homes.get(identity) or plan.home_of(identity)
        if label and label != home.name and is_service(identity):
            labelled = plan.scopes.get(label)
            if labelled is not None and labelled.signs(identity):
                home = labelled
        return home.protect(message)

    def protect_in(self, message: Message, domain: str) -> Message:
        """Label and sign a message of the control plane, in the domain that it speaks of."""
        scope = self._plan.scopes.get(domain)
        if scope is None:
            raise SecurityError(SecurityReason.UNKNOWN_DOMAIN, domain, message.identity)
        return scope.protect(message)

    def check(self, message: Message) -> None:
        """Raise `SecurityError` unless the label is the identity's domain and the signature is right.

        The protocol's own messages may be in any domain that is allowed here, because each node puts them into a domain
        of its own choice; but then they are signed, so that an unsigned domain does not open them to everyone. What
        changes a node's state is taken in its own domain only.
        """
        plan, identity = self._plan, message.identity
        if identity in LOCAL_ONLY:
            _refuse_local_only(message)
        scope = plan.scopes.get(message.domain) or _labelled(plan, message)
        if plan.homes.get(identity) is not scope:
            _refuse_wrong_label(plan, scope, message)
        scope.verify(message)

    def check_control(self, message: Message) -> None:
        """Raise `SecurityError` unless the domain is allowed here and the signature is right."""
        _refuse_local_only(message)
        _labelled(self._plan, message).verify(message)

    # -- rotation ---------------------------------------------------------------------------------------------------

    def reload_keys(self) -> bool:
        """Put the keys of the key ring into force if its file has changed, and return whether they are others now.

        A file that cannot be used changes nothing: the old keys stay in force, and the log says why.
        """
        ring = self.key_ring
        if ring is None or not ring.reload_if_changed():
            return False
        try:
            self.rotate_all({name: keys for name, keys in ring.keys.items() if self.is_allowed(name)})
        except LocalError as error:
            _log.error("the keys of %s cannot be used, the old ones stay in force: %s", ring.path, error)
            return False
        return True

    def rotate(self, name: str, keys: Key | bytes | Iterable[Key | bytes]) -> None:
        """Put other keys into force for one domain, at once: the first one signs, each verifies."""
        made = keys_of(keys)
        del keys  # first of all: from here on no variable holds a secret, which a traceback could show
        if isinstance(made, LocalError):
            raise made
        self.rotate_all({name: made})

    def rotate_all(self, keys: Mapping[str, Iterable[Key]]) -> None:
        """Put other keys into force for several domains, all at once; the other domains keep theirs."""
        unknown = [name for name in keys if name not in self._plan.scopes]
        if unknown:
            raise LocalError("domains", f"domains that are defined here ({', '.join(self.domains)})", unknown)
        self.replace(
            replace(domain, keys=tuple(keys[domain.name])) if domain.name in keys else domain
            for domain in self.definitions
        )

    def replace(self, domains: Iterable[Domain]) -> None:
        """Put other domains into force, all at once; what a domain has seen stays known, so that no replay slips in."""
        old = self._plan.scopes
        scopes = [
            Scope(domain, self._clock, old[domain.name].replays if domain.name in old else ReplayCache(self._clock))
            for domain in domains
        ]
        self._plan = _Plan(scopes)


def _labelled(plan: _Plan, message: Message) -> Scope:
    scope = plan.scopes.get(message.domain)
    if scope is None:
        raise SecurityError(SecurityReason.UNKNOWN_DOMAIN, message.domain, message.identity)
    return scope


def _refuse_wrong_label(plan: _Plan, scope: Scope, message: Message) -> None:
    """Refuse a label that is not the identity's domain, but for the protocol's own messages if they are signed."""
    identity = message.identity
    if plan.home_of(identity, message.domain) is scope or (is_for_any_domain(identity) and scope.signs(identity)):
        return
    raise SecurityError(SecurityReason.WRONG_DOMAIN, message.domain, identity)


def _refuse_local_only(message: Message) -> None:
    if message.identity in LOCAL_ONLY:
        raise SecurityError(SecurityReason.LOCAL_ONLY, message.domain, message.identity)
