"""Why messages are refused. No error here ever holds a key."""

from __future__ import annotations

from enum import StrEnum

from hopline.message import HoplineError, printable

_SHOWN = 60  # characters of a name that comes from the network


class SecurityReason(StrEnum):
    """Why a message is refused. The values are part of the interface: statistics and captures count by them."""

    UNKNOWN_DOMAIN = "unknown_domain"
    UNMAPPED_IDENTITY = "unmapped_identity"
    WRONG_DOMAIN = "wrong_domain"
    UNSIGNED = "unsigned"
    WRONG_PROFILE = "wrong_profile"
    WRONG_SIGNATURE = "wrong_signature"
    STALE = "stale"
    AHEAD = "ahead"
    REPLAYED = "replayed"
    LOCAL_ONLY = "local_only"

    @property
    def meaning(self) -> str:
        """The reason in words."""
        return _MEANINGS[self]


_MEANINGS = {
    SecurityReason.UNKNOWN_DOMAIN: "its domain has no key here",
    SecurityReason.UNMAPPED_IDENTITY: "its identity belongs to no domain here",
    SecurityReason.WRONG_DOMAIN: "it is labelled with another domain than that of its identity",
    SecurityReason.UNSIGNED: "it has no signature, and its domain requires one",
    SecurityReason.WRONG_PROFILE: "its signature has not the size of the domain's profile and algorithm",
    SecurityReason.WRONG_SIGNATURE: "no key of its domain made its signature",
    SecurityReason.STALE: "it was signed too long ago",
    SecurityReason.AHEAD: "it was signed in the future: the clocks differ by more than the domain allows",
    SecurityReason.REPLAYED: "it was here before",
    SecurityReason.LOCAL_ONLY: "it may only come from inside this node",
}


class SecurityError(HoplineError):
    """A message is refused.

    Attributes:
        reason: Why.
        domain: The domain that the message claims, which may be anything.
        identity: The identity that the message claims.
    """

    def __init__(self, reason: SecurityReason, domain: str = "", identity: bytes = b"") -> None:
        super().__init__(reason, domain, identity)
        self.reason = reason
        self.domain = domain
        self.identity = identity

    def __str__(self) -> str:
        identity = printable(self.identity, _SHOWN)
        domain = printable(self.domain, _SHOWN)
        return f"{self.reason}: message '{identity}' in domain '{domain}' is refused, {self.reason.meaning}"
