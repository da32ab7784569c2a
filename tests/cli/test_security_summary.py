"""The line about security that nodes and servers print when they are ready."""

from __future__ import annotations

from hopline import Network
from hopline.cli.security_summary import describe_encryption, describe_security
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


def test_an_empty_list_of_admitted_keys_is_spelled_out() -> None:
    everybody = "encrypted; admits every peer that has the network's public key (admitted is empty)"
    assert describe_encryption(curve()) == everybody
    assert describe_security(Network(curve=curve())) == f"not signed; {everybody}"


def test_admitted_keys_are_counted() -> None:
    assert describe_encryption(curve(new_keys()[0])) == "encrypted; admits 1 key"
    assert describe_encryption(curve(new_keys()[0], new_keys()[0])) == "encrypted; admits 2 keys"


def test_without_keys_nothing_is_encrypted() -> None:
    assert describe_encryption(None) == "not encrypted"
