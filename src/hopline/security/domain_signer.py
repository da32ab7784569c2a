"""Sign and verify the messages of one domain."""

from __future__ import annotations

import hmac
from collections.abc import Callable

import msgspec

from hopline.message import Message
from hopline.security import sealed
from hopline.security.domain import Domain, Profile
from hopline.security.errors import SecurityError, SecurityReason
from hopline.security.key import Key
from hopline.security.mac import Mac
from hopline.security.replay import ReplayCache
from hopline.wire import MacAlgorithm, mac_input

_replace = msgspec.structs.replace
_sealed_content, _new_header = sealed.content, sealed.header
_HEADER_SIZE = sealed.HEADER_SIZE


class DomainSigner:
    """Labels, signs and verifies messages of one domain, with its keys prepared and its replay cache."""

    __slots__ = (
        "_clock",
        "_is_sealed",
        "_refuses_replays",
        "_signature_size",
        "_signer",
        "_unsigned",
        "_verifiers",
        "domain",
        "name",
        "replays",
    )

    def __init__(self, domain: Domain, clock: Callable[[], float], replays: ReplayCache) -> None:
        self.domain = domain
        self.name = domain.name
        self.replays = replays
        self._clock = clock
        self._is_sealed = domain.profile is Profile.SEALED
        self._refuses_replays = domain.refuse_replays
        macs = tuple(_mac(key, domain.algorithm, domain.profile) for key in domain.keys)
        self._unsigned = domain.unsigned if isinstance(domain.unsigned, frozenset) else frozenset()
        self._signer = None if domain.unsigned is True else macs[0]
        self._verifiers = macs
        header_size = _HEADER_SIZE if self._is_sealed else 0
        digest_size = macs[0].size if macs else 0
        self._signature_size = header_size + digest_size

    def signs(self, identity: bytes) -> bool:
        """Return whether messages of an identity are signed in this domain."""
        return self._signer is not None and identity not in self._unsigned

    def sign(self, message: Message) -> Message:
        """Return the message with this domain as its label, signed unless its identity is among the unsigned.

        A valid sealed signature is kept. Signing again would give a replayed message a new time and nonce at the next
        node, and so defeat the replay check behind it.
        """
        signer = self._signer
        if signer is None or message.identity in self._unsigned:
            return message if message.domain == self.name else _replace(message, domain=self.name)
        if not self._is_sealed:
            signature = signer.of(mac_input(message))
        elif message.signature and self._is_made_by_a_key(message):
            return message if message.domain == self.name else _replace(message, domain=self.name)
        else:
            header = _new_header(int(self._clock() * 1000))
            signature = header + signer.of(header + _sealed_content(message, self.name))
        return _replace(message, domain=self.name, signature=signature)

    def verify(self, message: Message) -> None:
        """Raise `SecurityError` unless the signature is valid and, where replays are refused, the message is new."""
        if self._signer is None or message.identity in self._unsigned:
            return
        signature = message.signature
        reason: SecurityReason | None = None
        if len(signature) != self._signature_size or (self._is_sealed and signature[:1] != sealed.VERSION):
            reason = SecurityReason.WRONG_PROFILE if signature else SecurityReason.UNSIGNED
        elif not self._is_made_by_a_key(message):
            reason = SecurityReason.WRONG_SIGNATURE
        elif self._refuses_replays:  # after the signature: without a key nobody can fill or probe the cache
            reason = self.replays.refusal(self.domain, *sealed.read_header(signature))
        if reason is not None:
            raise SecurityError(reason, message.domain, message.identity)

    def _is_made_by_a_key(self, message: Message) -> bool:
        """Return whether the signature of a message was made with a key of this domain."""
        digest = message.signature
        if self._is_sealed:
            content = digest[:_HEADER_SIZE] + _sealed_content(message, self.name)
            digest = digest[_HEADER_SIZE:]
        else:
            content = mac_input(message)
        expected = self._verifiers[0].of(content)
        return hmac.compare_digest(expected, digest) or self._is_made_by_another_key(content, digest)

    def _is_made_by_another_key(self, content: bytes, digest: bytes) -> bool:
        first, *others = self._verifiers
        for verifier in others:
            if hmac.compare_digest(verifier.of(content), digest):
                # While keys are rotated most peers sign with the same one: try it first from now on.
                others.remove(verifier)
                self._verifiers = (verifier, first, *others)
                return True
        return False


def _mac(key: Key, algorithm: MacAlgorithm, profile: Profile) -> Mac:
    secret = key.reveal()
    if profile is Profile.SEALED:
        secret = sealed.derived_key(secret)
    return Mac(secret, algorithm.value)
