"""Domains, keys, signatures and replays: which messages a node accepts. No sockets; the clock is an argument.

>>> from time import time
>>> from hopline.message import Message
>>> from hopline.security import Domain, DomainSecurity, new_key
>>> security = DomainSecurity([Domain("orders", new_key(), ["ORDER"])], clock=time)
>>> signed = security.sign(Message.flow_start(b"ORDER", b"1 espresso"))
>>> security.verify(signed)
"""

from hopline.security.domain import (
    DEFAULT_CLOCK_SKEW,
    DEFAULT_REPLAY_CAPACITY,
    DEFAULT_WINDOW,
    Domain,
    Profile,
)
from hopline.security.errors import SecurityError, SecurityReason
from hopline.security.key import KEY_SIZE, MIN_KEY_SIZE, Key, new_key
from hopline.security.key_file import KeyFileError, KeyRing, key_line, load_keys
from hopline.security.provider import DomainSecurity, NoSecurity, Security
from hopline.security.sealed import COVERED, IN_TRANSIT
from hopline.security.services import LOCAL_ONLY, SERVICES, is_service

__all__ = [
    "COVERED",
    "DEFAULT_CLOCK_SKEW",
    "DEFAULT_REPLAY_CAPACITY",
    "DEFAULT_WINDOW",
    "IN_TRANSIT",
    "KEY_SIZE",
    "LOCAL_ONLY",
    "MIN_KEY_SIZE",
    "SERVICES",
    "Domain",
    "DomainSecurity",
    "Key",
    "KeyFileError",
    "KeyRing",
    "NoSecurity",
    "Profile",
    "Security",
    "SecurityError",
    "SecurityReason",
    "is_service",
    "key_line",
    "load_keys",
    "new_key",
]
