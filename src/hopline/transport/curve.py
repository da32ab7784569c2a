"""Encryption of a link by CURVE: a key of the network, a key of each of its members, and who is let in."""

from __future__ import annotations

import importlib.util
import re

import msgspec

from hopline.checks import require
from hopline.message import MissingExtraError

_Z85_KEY = re.compile(rb"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
ANYBODY: frozenset[bytes] = frozenset()


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of one member of an encrypted network, as Z85 text. See `new_keys`.

    Whoever binds shows that it has the network's secret key, whoever connects shows its own key. `admitted` are the
    public keys of those who are let in; when empty, everybody who knows the network's public key is.
    """

    network_public: bytes
    network_secret: bytes
    public: bytes
    secret: bytes
    admitted: frozenset[bytes] = ANYBODY

    def __post_init__(self) -> None:
        for name in ("network_public", "network_secret", "public", "secret"):
            _require_key(name, getattr(self, name), may_tell=name.endswith("public"))
        for key in self.admitted:
            _require_key("admitted", key, may_tell=True)

    def __repr__(self) -> str:
        return f"Curve(network={self.network_public.decode()}, member={self.public.decode()})"

    @property
    def zap_domain(self) -> bytes:
        """The name under which the authenticator of this process knows these keys."""
        return b"hopline-" + self.public


def new_keys() -> tuple[bytes, bytes]:
    """Make a key pair for a network or for a member: public and secret, as Z85 text."""
    require_libzmq()
    import zmq

    return zmq.curve_keypair()


def require_libzmq() -> None:
    """Raise `MissingExtraError` unless pyzmq is installed, whose libzmq encrypts."""
    if importlib.util.find_spec("zmq") is None:
        raise MissingExtraError("encryption by CURVE", "pyzmq", "curve")


def _require_key(name: str, key: object, *, may_tell: bool) -> None:
    is_key = isinstance(key, bytes) and _Z85_KEY.fullmatch(key) is not None
    shown = key if may_tell else "(not shown)"
    require(is_key, f"curve {name}", "a key of 40 Z85 characters", shown)
