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
_HEADER_SIZE = sealed.HEADER_SIZE


class Scope:
    """A domain's definition, with its keys made ready and with what it has seen."""

    __slots__ = ("_clock", "_is_sealed", "_mac_size", "_signer", "_unsigned", "_verifiers", "domain", "name", "replays")

    def __init__(self, domain: Domain, clock: Callable[[], float], replays: ReplayCache) -> None:
        self.domain = domain
        self.name = domain.name
        self.replays = replays
        self._clock = clock
        self._is_sealed = domain.profile is Profile.SEALED
        macs = tuple(_mac(key, domain.algorithm, domain.profile) for key in domain.keys)
        self._unsigned = domain.unsigned if isinstance(domain.unsigned, frozenset) else frozenset()
        self._signer = None if domain.unsigned is True else macs[0]
        self._verifiers = macs
        self._mac_size = macs[0].size if macs else 0

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
        if self._is_sealed:
            if message.signature and self._is_sealed_by_a_key(message):
                return message if message.domain == self.name else _replace(message, domain=self.name)
            header = sealed.header(int(self._clock() * 1000))
            signature = header + signer.of(header + sealed.content(message, self.name))
        else:
            signature = signer.of(mac_input(message))
        return _replace(message, domain=self.name, signature=signature)

    def verify(self, message: Message) -> None:
        """Raise `SecurityError` unless the signature is right, and the message new if the domain asks for that."""
        if self.signs(message.identity):
            reason = self._refusal(message)
            if reason is not None:
                raise SecurityError(reason, message.domain, message.identity)

    def _refusal(self, message: Message) -> SecurityReason | None:
        signature = message.signature
        if self._is_sealed:
            if not sealed.has_shape(signature, self._mac_size):
                return SecurityReason.WRONG_PROFILE if signature else SecurityReason.UNSIGNED
            if not self._is_sealed_by_a_key(message):
                return SecurityReason.WRONG_SIGNATURE
            if self.domain.refuse_replays:  # after the signature: who has no key can neither fill nor probe the cache
                return self.replays.refusal(self.domain, *sealed.read_header(signature))
            return None
        if len(signature) != self._mac_size:
            return SecurityReason.WRONG_PROFILE if signature else SecurityReason.UNSIGNED
        return None if self._is_made_by_a_key(mac_input(message), signature) else SecurityReason.WRONG_SIGNATURE

    def _is_sealed_by_a_key(self, message: Message) -> bool:
        signature = message.signature
        content = signature[:_HEADER_SIZE] + sealed.content(message, self.name)
        return self._is_made_by_a_key(content, signature[_HEADER_SIZE:])

    def _is_made_by_a_key(self, content: bytes, digest: bytes) -> bool:
        verifiers = self._verifiers
        for at, verifier in enumerate(verifiers):
            if hmac.compare_digest(verifier.of(content), digest):
                if at:  # while keys are rotated most peers use the same one: try it first from now on
                    self._verifiers = (verifier, *verifiers[:at], *verifiers[at + 1 :])
                return True
        return False


def _mac(key: Key, algorithm: MacAlgorithm, profile: Profile) -> Mac:
    secret = key.reveal()
    return Mac(sealed.derived_key(secret) if profile is Profile.SEALED else secret, algorithm.value)
