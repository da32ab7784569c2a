"""What nodes and servers say of who is let in."""

from __future__ import annotations

from hopline import Network
from hopline.cli.banner import encryption_of, security_of
from hopline.transport import Curve, new_keys


def curve(*admitted: bytes) -> Curve:
    network, member = new_keys(), new_keys()
    return Curve(
        network_public=network[0],
        network_secret=network[1],
        public=member[0],
        secret=member[1],
        admitted=frozenset(admitted),
    )


def test_an_empty_list_of_admitted_keys_says_who_is_let_in() -> None:
    everybody = "encrypted; lets in everybody who knows the network's public key (admitted is empty)"
    assert encryption_of(curve()) == everybody
    assert security_of(Network(curve=curve())) == f"nothing is signed; {everybody}"


def test_so_does_a_list_that_is_not_empty() -> None:
    assert encryption_of(curve(new_keys()[0])) == "encrypted; lets in 1 admitted key"
    assert encryption_of(curve(new_keys()[0], new_keys()[0])) == "encrypted; lets in 2 admitted keys"


def test_without_keys_nothing_is_encrypted() -> None:
    assert encryption_of(None) == "nothing is encrypted"
