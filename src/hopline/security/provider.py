"""The security of a node: which domain a message belongs to, and whether it may be sent or received.

Theory of operation. Every message identity belongs to one domain: the one whose definition lists it. The protocol's own
messages need not be listed; they belong to the first domain, and questions about a node to the first domain that is
signed. Sending labels a message with its domain and signs it; receiving verifies that the label is the domain of the
identity, and that a key of the domain made the signature. Two exceptions follow from the protocol:

* an exception or a receipt answers in the domain of the request, because the caller may have no key of another domain;
  so the protocol's own messages are accepted in every domain in which they are signed;
* messages of the control plane name the domain they are about, so `sign_control` takes it as an argument and
  `verify_control` compares no identity.

The domains in force are one immutable `_Plan`. Rotation of keys replaces the plan as a whole, so that no message is
judged by half of the old keys and half of the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import msgspec

from hopline.message import ArgumentError, Message, get_logger
from hopline.security.domain import Domain, keys_of
from hopline.security.domain_signer import DomainSigner
from hopline.security.errors import SecurityError, SecurityReason
from hopline.security.key import Key
from hopline.security.key_file import KeyRing
from hopline.security.replay import ReplayCache
from hopline.security.services import LOCAL_ONLY, QUESTIONS, SERVICES, is_for_any_domain, is_service

_log = get_logger("hopline.security")


class Security(Protocol):
    """Signs what a node sends and verifies what it receives. Messages that stay on the node pass neither."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that are allowed here."""
        ...

    def is_allowed(self, domain: str) -> bool:
        """Return whether messages of a domain may be sent and received here."""
        ...

    def signs(self, domain: str, identity: bytes) -> bool:
        """Return whether messages of an identity are signed in a domain."""
        ...

    def domain_of(self, identity: bytes) -> str:
        """Return the domain that an identity belongs to.

        Raises:
            SecurityError: The identity belongs to no domain here (`SecurityReason.UNMAPPED_IDENTITY`).
        """
        ...

    def sign(self, message: Message) -> Message:
        """Return a message of the data plane labelled and signed; needed whenever it is sent or forwarded."""
        ...

    def sign_control(self, message: Message, domain: str) -> Message:
        """Return a message of the control plane labelled and signed in the domain that it is about."""
        ...

    def verify(self, message: Message) -> None:
        """Raise `SecurityError` unless a message of the data plane may be accepted from the network."""
        ...

    def verify_control(self, message: Message) -> None:
        """Raise `SecurityError` unless a message of the control plane may be accepted from the network."""
        ...


class NoSecurity:
    """One domain without a name, in which everything is allowed and nothing is signed.

    Only messages that never travel between nodes (`LOCAL_ONLY`) are refused.
    """

    domains: tuple[str, ...] = ("",)

    def is_allowed(self, domain: str) -> bool:  # noqa: ARG002
        """Return True: every domain is allowed."""
        return True

    def signs(self, domain: str, identity: bytes) -> bool:  # noqa: ARG002
        """Return False: nothing is signed."""
        return False

    def domain_of(self, identity: bytes) -> str:  # noqa: ARG002
        """Return the domain without a name."""
        return ""

    def sign(self, message: Message) -> Message:
        """Return the message unchanged: nodes that use domains may have signed it."""
        return message

    def sign_control(self, message: Message, domain: str) -> Message:
        """Return the message with the domain as its label."""
        return message if message.domain == domain else msgspec.structs.replace(message, domain=domain)

    def verify(self, message: Message) -> None:
        """Raise `SecurityError` for messages that never travel between nodes."""
        _refuse_local_only(message)

    def verify_control(self, message: Message) -> None:
        """Raise `SecurityError` for messages that never travel between nodes."""
        _refuse_local_only(message)


class _Plan:
    """The domains in force, by name and by identity. Immutable: rotation replaces it as a whole."""

    __slots__ = ("first", "for_questions", "signer_by_identity", "signers")

    def __init__(self, signers: Iterable[DomainSigner]) -> None:
        self.signers: dict[str, DomainSigner] = {}
        self.signer_by_identity: dict[bytes, DomainSigner] = {}
        for signer in signers:
            if signer.name in self.signers:
                raise ArgumentError("domains", "each domain once", signer.name)
            self.signers[signer.name] = signer
            for identity in signer.domain.identities:
                other = self.signer_by_identity.setdefault(identity, signer)
                if other is not signer:
                    expected = f"each identity in one domain, not in {other.name!r} and {signer.name!r}"
                    raise ArgumentError("identities", expected, identity)
        if not self.signers:
            raise ArgumentError("domains", "at least one domain, or NoSecurity()", ())
        self.first = next(iter(self.signers.values()))
        # Answers about the node itself are signed if anything is.
        signed = (signer for signer in self.signers.values() if signer.domain.unsigned is not True)
        self.for_questions = next(signed, self.first)
        for identity in SERVICES:
            self.signer_by_identity.setdefault(identity, self.for_questions if identity in QUESTIONS else self.first)

    def signer_for(self, identity: bytes, label: str = "") -> DomainSigner:
        signer = self.signer_by_identity.get(identity)
        if signer is not None:
            return signer
        if is_service(identity):
            return self.for_questions
        raise SecurityError(SecurityReason.UNMAPPED_IDENTITY, label, identity)


class DomainSecurity:
    """The security of a node that has domains with keys. Not thread-safe.

    Args:
        domains: The domains, each with its keys and identities. The first one is also the domain of the protocol's own
            messages (exceptions, receipts, pings) unless an identity of theirs is listed elsewhere.
        clock: Returns seconds since 1970, as `time.time` does.
        key_ring: A key file to follow: a running node applies changed keys within a second.

    Raises:
        ArgumentError: A domain or an identity is given twice, or there is no domain.
    """

    def __init__(
        self, domains: Iterable[Domain], *, clock: Callable[[], float], key_ring: KeyRing | None = None
    ) -> None:
        self.key_ring = key_ring
        self._clock = clock
        self._plan = _Plan(DomainSigner(domain, clock, ReplayCache(clock)) for domain in domains)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that are defined here."""
        return tuple(self._plan.signers)

    @property
    def definitions(self) -> tuple[Domain, ...]:
        """The domains as they are in force now."""
        return tuple(signer.domain for signer in self._plan.signers.values())

    def is_allowed(self, domain: str) -> bool:
        """Return whether a domain is defined here."""
        return domain in self._plan.signers

    def signs(self, domain: str, identity: bytes) -> bool:
        """Return whether messages of an identity are signed in a domain; in one that is not defined here, none are."""
        signer = self._plan.signers.get(domain)
        return signer is not None and signer.signs(identity)

    def domain_of(self, identity: bytes) -> str:
        """Return the domain that an identity belongs to, in any version and partition."""
        return self._plan.signer_for(identity).name

    def sign(self, message: Message) -> Message:
        """Return a message labelled and signed for another node; a forwarded one keeps a valid sealed signature.

        The protocol's own messages keep the label of a domain in which they are signed here, so that an exception can
        answer in the domain of the request: the caller may have no key of another domain.
        """
        plan, identity, label = self._plan, message.identity, message.domain
        signer = plan.signer_by_identity.get(identity) or plan.signer_for(identity)
        if label and label != signer.name and is_service(identity):
            labelled = plan.signers.get(label)
            if labelled is not None and labelled.signs(identity):
                signer = labelled
        return signer.sign(message)

    def sign_control(self, message: Message, domain: str) -> Message:
        """Return a message of the control plane labelled and signed in the domain that it is about."""
        signer = self._plan.signers.get(domain)
        if signer is None:
            raise SecurityError(SecurityReason.UNKNOWN_DOMAIN, domain, message.identity)
        return signer.sign(message)

    def verify(self, message: Message) -> None:
        """Raise `SecurityError` unless the label is the identity's domain and the signature is valid.

        The protocol's own messages are accepted in any domain that is allowed here, because each node chooses their
        domain itself; they must be signed then, so that an unsigned domain does not open them to everyone. Requests
        that change the state of a node are accepted in their own domain only.
        """
        plan, identity = self._plan, message.identity
        if identity in LOCAL_ONLY:
            _refuse_local_only(message)
        signer = plan.signers.get(message.domain) or _labelled(plan, message)
        if plan.signer_by_identity.get(identity) is not signer:
            _refuse_wrong_label(plan, signer, message)
        signer.verify(message)

    def verify_control(self, message: Message) -> None:
        """Raise `SecurityError` unless the domain is allowed here and the signature is valid."""
        _refuse_local_only(message)
        _labelled(self._plan, message).verify(message)

    # -- rotation ---------------------------------------------------------------------------------------------------

    def reload_keys(self) -> bool:
        """Apply the keys of the key ring if its file has changed, and return whether they differ from the old ones.

        If the file cannot be used, the old keys stay in force and the problem is logged.
        """
        ring = self.key_ring
        if ring is None or not ring.reload_if_changed():
            return False
        try:
            keys_here = {name: keys for name, keys in ring.keys.items() if self.is_allowed(name)}
            self.rotate_all(keys_here)
        except ArgumentError as error:
            _log.error("the keys of %s cannot be used, the old ones stay in force: %s", ring.path, error)
            return False
        return True

    def rotate(self, name: str, keys: Key | bytes | Iterable[Key | bytes]) -> None:
        """Replace the keys of one domain: the first one signs, each of them verifies."""
        made = keys_of(keys)
        del keys  # from here on no variable holds a secret that a traceback could show
        if isinstance(made, ArgumentError):
            raise made
        self.rotate_all({name: made})

    def rotate_all(self, keys: Mapping[str, Iterable[Key]]) -> None:
        """Replace the keys of several domains at once; the other domains keep theirs."""
        unknown = [name for name in keys if name not in self._plan.signers]
        if unknown:
            raise ArgumentError("domains", f"domains that are defined here ({', '.join(self.domains)})", unknown)
        domains: list[Domain] = []
        for domain in self.definitions:
            if domain.name in keys:
                domain = replace(domain, keys=tuple(keys[domain.name]))
            domains.append(domain)
        self.replace(domains)

    def replace(self, domains: Iterable[Domain]) -> None:
        """Replace all domains at once. A domain keeps its replay cache, so that no replay passes."""
        old = self._plan.signers
        signers: list[DomainSigner] = []
        for domain in domains:
            predecessor = old.get(domain.name)
            replays = ReplayCache(self._clock) if predecessor is None else predecessor.replays
            signers.append(DomainSigner(domain, self._clock, replays))
        self._plan = _Plan(signers)


def _labelled(plan: _Plan, message: Message) -> DomainSigner:
    signer = plan.signers.get(message.domain)
    if signer is None:
        raise SecurityError(SecurityReason.UNKNOWN_DOMAIN, message.domain, message.identity)
    return signer


def _refuse_wrong_label(plan: _Plan, signer: DomainSigner, message: Message) -> None:
    """Raise `SecurityError` if the label is not the identity's domain, except on signed messages of the protocol."""
    identity = message.identity
    if plan.signer_for(identity, message.domain) is signer or (is_for_any_domain(identity) and signer.signs(identity)):
        return
    raise SecurityError(SecurityReason.WRONG_DOMAIN, message.domain, identity)


def _refuse_local_only(message: Message) -> None:
    if message.identity in LOCAL_ONLY:
        raise SecurityError(SecurityReason.LOCAL_ONLY, message.domain, message.identity)
