"""Domains, keys and a clock for these tests."""

from __future__ import annotations

from typing import Any

from hopline import Message, MessageIdentifier
from hopline.security import Domain, DomainSecurity, Key

KEY = Key(b"the first secret, 32 bytes long!")
OTHER_KEY = Key(b"another secret, as long as that.")
SECRETS = (KEY, OTHER_KEY)


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def orders(**settings: Any) -> Domain:
    return Domain("orders", settings.pop("keys", KEY), settings.pop("identities", ["ORDER"]), **settings)


def secure(*domains: Domain, clock: Clock | None = None) -> DomainSecurity:
    return DomainSecurity(domains or (orders(),), clock=clock or Clock())


def order(**changes: Any) -> Message:
    message = Message.flow_start(b"ORDER", b"1 espresso").register_callback_point(
        b"node", b"\0hub", (MessageIdentifier(b"DONE"), MessageIdentifier(b"KINO.EXCEPTION")), 7
    )
    return message.clone(**changes)
