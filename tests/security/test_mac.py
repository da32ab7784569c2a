"""The MAC is HMAC."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.security.mac import Mac
from hopline.wire import MacAlgorithm


@pytest.mark.parametrize("algorithm", MacAlgorithm)
@given(secret=st.binary(min_size=1, max_size=300), contents=st.lists(st.binary(max_size=300), max_size=3))
def test_it_is_the_hmac_of_the_standard_library(algorithm: MacAlgorithm, secret: bytes, contents: list[bytes]) -> None:
    mac = Mac(secret, algorithm)
    assert mac.size == len(mac.of(b""))
    for content in contents:
        assert mac.of(content) == hmac.digest(secret, content, algorithm)


@pytest.mark.parametrize("algorithm", MacAlgorithm)
@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 129, 500])
def test_keys_around_the_size_of_a_block_are_no_exception(algorithm: MacAlgorithm, size: int) -> None:
    secret = bytes(at % 251 for at in range(size))
    assert Mac(secret, algorithm).of(b"content") == hmac.digest(secret, b"content", algorithm)


def test_it_is_that_of_rfc_4231() -> None:
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert Mac(b"Jefe", "sha256").of(b"what do ya want for nothing?").hex() == expected
