"""A bounded queue whose senders can wait for room."""

from __future__ import annotations

import asyncio

import pytest

from hopline import Message
from hopline.actors import Mailbox
from hopline.routing import Delivery


def delivery(number: int) -> Delivery:
    return Delivery(Message(b"%d" % number), 0.0)


def test_it_keeps_the_order_and_its_bound() -> None:
    mailbox = Mailbox(2)
    assert [mailbox.offer(delivery(number)) for number in range(3)] == [True, True, False]
    assert len(mailbox) == 2
    assert [mailbox.take().message.identity for _ in range(2)] == [b"0", b"1"]
    assert not mailbox


async def put(mailbox: Mailbox, number: int) -> int:
    while not mailbox.offer(delivery(number)):
        await mailbox.room()
    return number


def test_those_who_wait_get_room_in_the_order_of_their_coming() -> None:
    async def run() -> None:
        mailbox = Mailbox(1)
        senders = [asyncio.create_task(put(mailbox, number)) for number in range(4)]
        taken: list[bytes] = []
        while len(taken) < 4:
            await asyncio.sleep(0)
            if mailbox:
                taken.append(mailbox.take().message.identity)
        assert taken == [b"0", b"1", b"2", b"3"]
        assert [await sender for sender in senders] == [0, 1, 2, 3]

    asyncio.run(run())


@pytest.mark.parametrize("when", ["before its turn", "after its turn"])
def test_one_who_gives_up_waiting_blocks_nobody(when: str) -> None:
    async def run() -> None:
        mailbox = Mailbox(1)
        mailbox.offer(delivery(0))
        impatient = asyncio.create_task(put(mailbox, 1))
        patient = asyncio.create_task(put(mailbox, 2))
        await asyncio.sleep(0)
        if when == "before its turn":
            impatient.cancel()
            mailbox.take()
        else:
            mailbox.take()
            impatient.cancel()
        assert await asyncio.wait_for(patient, 1) == 2
        assert mailbox.take().message.identity == b"2"

    asyncio.run(run())


def test_closing_it_gives_back_what_is_left_and_wakes_those_who_wait() -> None:
    async def run() -> None:
        mailbox = Mailbox(1)
        mailbox.offer(delivery(0))
        waiting = asyncio.create_task(mailbox.room())
        await asyncio.sleep(0)
        assert [one.message.identity for one in mailbox.close()] == [b"0"]
        await asyncio.wait_for(waiting, 1)
        assert not mailbox.offer(delivery(1))

    asyncio.run(run())
