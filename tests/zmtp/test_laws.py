"""What must hold for every conversation, and for every string of bytes."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hopline.zmtp import Connection, Event, Limits, Ready, SocketType, Version, encode_message
from tests.zmtp.conversations import LIMITS, SIZES, conversation, damaged, outcome
from tests.zmtp.peers import COMMAND, SIGNATURE, chunks, frame, greeting, message, opening, read_messages

RANDOMS = st.randoms(use_true_random=False)
CHUNK_SIZES = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 100)), min_size=1, max_size=20)
FRAMES = st.one_of(st.binary(max_size=20), st.sampled_from(SIZES).map(lambda size: b"x" * size), st.just(b"y" * 3_000))
MESSAGES = st.lists(st.lists(FRAMES, min_size=1, max_size=5), max_size=6)


@given(rng=RANDOMS, sizes=CHUNK_SIZES)
def test_however_a_valid_conversation_is_cut_it_means_the_same(rng: random.Random, sizes: list[int]) -> None:
    said = conversation(rng)
    whole = outcome(said.ours, said.limits, [said.stream])
    assert outcome(said.ours, said.limits, chunks(said.stream, sizes)) == whole
    assert outcome(said.ours, said.limits, list(said.parts)) == whole


@given(rng=RANDOMS, sizes=CHUNK_SIZES)
def test_however_a_damaged_conversation_is_cut_it_means_the_same(rng: random.Random, sizes: list[int]) -> None:
    said = damaged(conversation(rng), rng)
    whole = outcome(said.ours, said.limits, [said.stream])
    assert outcome(said.ours, said.limits, chunks(said.stream, sizes)) == whole
    assert outcome(said.ours, said.limits, list(said.parts)) == whole


@given(noise=st.binary(max_size=300), sizes=CHUNK_SIZES, limits=st.sampled_from(LIMITS), start=st.integers(0, 4))
def test_however_noise_is_cut_it_means_the_same(noise: bytes, sizes: list[int], limits: Limits, start: int) -> None:
    before = (b"", SIGNATURE, greeting(), opening(Version.V2_0), opening(Version.V3_1))[start]
    whole = outcome(SocketType.ROUTER, limits, [before + noise])
    assert outcome(SocketType.ROUTER, limits, chunks(before + noise, sizes)) == whole
    assert outcome(SocketType.ROUTER, limits, [before, noise]) == whole


@pytest.mark.parametrize(
    "stream",
    [
        b"\xff\0\0\0\0\0\0\0\0\0",  # ends with the byte that is wrong
        SIGNATURE + b"\0",
        opening(Version.V2_0)[:12] + b"\x80",
        opening(Version.V2_0)[:12] + b"\x80\0",
        greeting() + b"\x80",
        greeting() + b"\x80\0",
        greeting() + bytes((COMMAND,)),
        opening(Version.V3_1) + b"\x80",
        opening(Version.V3_1) + b"\x80\0",
        opening(Version.V3_1) + struct.pack(">BQ", 2, 2**63),
        opening(Version.V3_1) + frame(b"", 1) * 5,
        opening(Version.V3_1) + message(*[b""] * 5),
    ],
    ids=lambda stream: repr(stream[-12:]),
)
@pytest.mark.parametrize("limits", LIMITS)
def test_cutting_anywhere_near_a_violation_changes_nothing(stream: bytes, limits: Limits) -> None:
    whole = outcome(SocketType.ROUTER, limits, [stream])
    for at in range(len(stream) + 1):
        assert outcome(SocketType.ROUTER, limits, [stream[:at], stream[at:]]) == whole
    assert outcome(SocketType.ROUTER, limits, chunks(stream, [1])) == whole


def converse(one: Connection, other: Connection, sizes: list[int]) -> tuple[list[Event], list[Event]]:
    """Carry everything between two connections, in pieces of these sizes, until both are silent."""
    sides = (one, other)
    under_way = [b"", b""]  # to each side
    events: tuple[list[Event], list[Event]] = ([], [])
    turn = 0
    while True:
        for index, side in enumerate(sides):
            under_way[1 - index] += side.take_output()
        if not any(under_way):
            return events
        for index, side in enumerate(sides):
            size = sizes[turn % len(sizes)]
            turn += 1
            piece, under_way[index] = under_way[index][:size], under_way[index][size:]
            events[index].extend(side.receive(piece))


@given(
    sizes=CHUNK_SIZES,
    there=MESSAGES,
    back=MESSAGES,
    identities=st.tuples(*[st.sampled_from([b"", b"i", b"i" * 255])] * 2),
)
@example(sizes=[1], there=[[b""]], back=[[b"x" * 256]], identities=(b"one", b"other"))
def test_two_connections_become_ready_and_every_message_arrives(
    sizes: list[int], there: list[list[bytes]], back: list[list[bytes]], identities: tuple[bytes, bytes]
) -> None:
    one, other = Connection(SocketType.DEALER, identities[0]), Connection(SocketType.ROUTER, identities[1])
    of_one, of_other = converse(one, other, sizes)
    assert of_one == [Ready(Version.V3_1, SocketType.ROUTER, identities[1])]
    assert of_other == [Ready(Version.V3_1, SocketType.DEALER, identities[0])]
    for sender, receiver, messages in ((one, other, there), (other, one, back)):
        sent = b"".join(encode_message(frames) + sender.ping(1) for frames in messages)
        arrived = [event for piece in chunks(sent, [7 * size for size in sizes]) for event in receiver.receive(piece)]
        assert [event for event in arrived if isinstance(event, list)] == messages
        assert len(arrived) == 2 * len(messages)
        assert len(sender.receive(receiver.take_output())) == len(messages)  # a pong for each ping


@pytest.mark.parametrize(
    ("version", "revision"), [(Version.V2_0, 1), (Version.V2_0, 2), (Version.V3_0, 1), (Version.V3_1, 1)]
)
@given(sizes=CHUNK_SIZES, there=MESSAGES, back=MESSAGES)
def test_a_peer_of_any_version_becomes_ready_and_every_message_arrives(
    version: Version, revision: int, sizes: list[int], there: list[list[bytes]], back: list[list[bytes]]
) -> None:
    connection = Connection(SocketType.ROUTER, b"us")
    sent = opening(version, "DEALER", b"them", revision) + b"".join(message(*frames) for frames in there)
    events = [event for piece in chunks(sent, sizes) for event in connection.receive(piece)]
    assert events == [Ready(version, SocketType.DEALER, b"them"), *there]
    written = connection.take_output() + b"".join(map(encode_message, back))
    assert written.startswith(SIGNATURE + b"\x03")
    if version is Version.V2_0:
        assert written[11] == 6
        assert read_messages(written[12:]) == [[b"us"], *back]
    else:
        assert read_messages(written[64:]) == back
