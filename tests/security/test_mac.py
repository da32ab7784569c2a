from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.security.mac import KeyedMac
from hopline.wire import MacAlgorithm


@pytest.mark.parametrize("algorithm", MacAlgorithm)
@given(secret=st.binary(min_size=1, max_size=300), content=st.binary(max_size=300))
def test_a_keyed_mac_is_the_hmac_of_the_standard_library(
    algorithm: MacAlgorithm, secret: bytes, content: bytes
) -> None:
    keyed = KeyedMac(secret, algorithm)
    expected = hmac.digest(secret, content, algorithm.value)
    assert keyed.digest(content) == expected
    assert keyed.digest(content) == expected, "what was signed before leaves no trace"
    assert keyed.size == len(expected)
