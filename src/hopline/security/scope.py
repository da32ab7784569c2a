"""One domain at work: it labels, signs and verifies messages."""

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


class Scope:
    """A domain's definition, with its keys made ready and with what it has seen."""

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
        self._signature_size = (_HEADER_SIZE if self._is_sealed else 0) + (macs[0].size if macs else 0)

    def signs(self, identity: bytes) -> bool:
        """Tell whether messages of this identity are signed in the domain."""
        return self._signer is not None and identity not in self._unsigned

    def protect(self, message: Message) -> Message:
        """Label a message with this domain, and sign it unless it is one of the unsigned.

        A sealed signature that is right is kept: signed anew, a replay would be as good as new after one more node.
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
        """Raise `SecurityError` unless the signature is right, and the message new if the domain asks for that."""
        if self._signer is None or message.identity in self._unsigned:
            return
        signature = message.signature
        reason: SecurityReason | None = None
        if len(signature) != self._signature_size or (self._is_sealed and signature[:1] != sealed.VERSION):
            reason = SecurityReason.WRONG_PROFILE if signature else SecurityReason.UNSIGNED
        elif not self._is_made_by_a_key(message):
            reason = SecurityReason.WRONG_SIGNATURE
        elif self._refuses_replays:  # after the signature: who has no key can neither fill nor probe the cache
            reason = self.replays.refusal(self.domain, *sealed.read_header(signature))
        if reason is not None:
            raise SecurityError(reason, message.domain, message.identity)

    def _is_made_by_a_key(self, message: Message) -> bool:
        """Tell whether a key of the domain made the signature of a message."""
        digest = message.signature
        if self._is_sealed:
            content = digest[:_HEADER_SIZE] + _sealed_content(message, self.name)
            digest = digest[_HEADER_SIZE:]
        else:
            content = mac_input(message)
        return hmac.compare_digest(self._verifiers[0].of(content), digest) or self._is_made_by_another_key(
            content, digest
        )

    def _is_made_by_another_key(self, content: bytes, digest: bytes) -> bool:
        first, *others = self._verifiers
        for verifier in others:
            if hmac.compare_digest(verifier.of(content), digest):
                # While keys are rotated most peers use the same one: it is tried first from now on.
                self._verifiers = (verifier, first, *(other for other in others if other is not verifier))
                return True
        return False


def _mac(key: Key, algorithm: MacAlgorithm, profile: Profile) -> Mac:
    secret = key.reveal()
    return Mac(sealed.derived_key(secret) if profile is Profile.SEALED else secret, algorithm.value)
