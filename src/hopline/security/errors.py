"""What is refused, and why. Nothing here ever holds a key."""

from __future__ import annotations

from enum import StrEnum

from hopline.message import HoplineError, printable

_SHOWN = 60  # characters of a name that a stranger chose


class SecurityReason(StrEnum):
    """Why a message is refused. The values are fixed: they are what stats, captures and alarms count by."""

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
    SecurityReason.UNSIGNED: "it has no signature, and its domain wants one",
    SecurityReason.WRONG_PROFILE: "its signature has another shape than the domain's profile and algorithm make",
    SecurityReason.WRONG_SIGNATURE: "no key of its domain made its signature",
    SecurityReason.STALE: "it was signed too long ago",
    SecurityReason.AHEAD: "it was signed in the future: the clocks differ by more than the domain allows",
    SecurityReason.REPLAYED: "it was here before",
    SecurityReason.LOCAL_ONLY: "it may only come from inside this node",
}


class SecurityError(HoplineError):
    """A message is refused: `reason` says why, `domain` and `identity` are what it says of itself."""

    def __init__(self, reason: SecurityReason, domain: str = "", identity: bytes = b"") -> None:
        super().__init__(reason, domain, identity)
        self.reason = reason
        self.domain = domain
        self.identity = identity

    def __str__(self) -> str:
        # A stranger chose both names.
        identity, domain = printable(self.identity, _SHOWN), printable(self.domain, _SHOWN)
        return f"{self.reason}: message '{identity}' in domain '{domain}' is refused, {self.reason.meaning}"
