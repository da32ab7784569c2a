"""Correlation ids of new flows."""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from hopline.message import new_flow_id


def test_they_are_guid_text_and_differ() -> None:
    ids = [new_flow_id() for _ in range(1000)]
    assert len(set(ids)) == len(ids)
    for one in ids:
        assert str(uuid.UUID(one.decode())).encode() == one


def test_they_differ_from_block_to_block_and_thread_to_thread() -> None:
    with ThreadPoolExecutor(4) as threads:
        ids = [one for some in threads.map(lambda _: [new_flow_id() for _ in range(5000)], range(4)) for one in some]
    assert len(set(ids)) == 20_000
    assert {len(one) for one in ids} == {36}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # of forking with threads about, which the child does not mind
def test_a_forked_child_makes_its_own() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_flow_id())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100)
    os.close(reading)
    os.close(writing)
    assert theirs[:24] != new_flow_id()[:24]
