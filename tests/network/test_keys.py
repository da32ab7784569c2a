"""Keys as those who set them up meet them: rotated in a file, missing, wrong, or of another kind."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from functools import partial
from pathlib import Path

import pytest

from hopline import DeliveryError, Domain, DomainSecurity, KeyRing, NodeSettings, RendezvousServer, new_key
from hopline.security import Key, NoSecurity, key_line
from tests.node.running import on_loop, until

from .frames import V5
from .ours import Ehhlo, Hello, Reversing, knows, membership, our_node, rendezvous

MINE, OTHER = new_key(), new_key()
IDENTITIES = ["HELLO", "EHHLO"]
SOON = NodeSettings(discovery_timeout=0.5)


def secured(keys: Key = MINE, name: str = "orders", **domain: str) -> DomainSecurity:
    return DomainSecurity([Domain(name, keys, IDENTITIES, **domain)], clock=time.time)  # type: ignore[arg-type]


def write_keys(path: Path, *keys: Key) -> None:
    """Replace a key file as a whole."""
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.writelines(key_line("orders", key) for key in keys)
    new.rename(path)


def has_keys(security: DomainSecurity, keys: tuple[Key, ...]) -> bool:
    return security.definitions[0].keys == keys


@on_loop
async def test_nodes_in_code_follow_their_key_files_and_a_rotation_loses_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / "client.keys", tmp_path / "server.keys"]
    securities = []
    for path in paths:
        write_keys(path, MINE)
        ring = KeyRing(path, domains=["orders"])
        securities.append(
            DomainSecurity([Domain("orders", ring["orders"], IDENTITIES)], clock=time.time, key_ring=ring)
        )

    async with (
        rendezvous() as server,
        our_node(V5, server.address, actors=(Reversing(),), security=securities[1]) as other,
        our_node(V5, server.address, security=securities[0]) as node,
    ):
        await until(lambda: knows(node, other.identity))
        is_over = False

        async def ask_on() -> int:
            count = 0
            while not is_over:
                await node.hub.send(Hello(b"12abc"), callback=Ehhlo, timeout=20)
                count += 1
            return count

        asking = asyncio.create_task(ask_on())
        for keys in ((MINE, OTHER), (OTHER, MINE), (OTHER,)):
            for path, security in zip(paths, securities, strict=True):
                write_keys(path, *keys)
                await until(partial(has_keys, security, keys))
        is_over = True
        assert await asking > 0


@on_loop
async def test_a_key_file_that_cannot_be_used_leaves_the_old_keys_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    write_keys(path, MINE)
    ring = KeyRing(path, domains=["orders"])
    security = DomainSecurity([Domain("orders", ring["orders"], IDENTITIES)], clock=time.time, key_ring=ring)
    async with rendezvous() as server, our_node(V5, server.address, security=security):
        path.write_text("orders nonsense\n", encoding="utf-8")
        await until(lambda: "the old keys stay in force" in caplog.text)
        assert security.definitions[0].keys == (MINE,)


async def refusal(
    server: RendezvousServer, caller: DomainSecurity | NoSecurity, handler: DomainSecurity | NoSecurity
) -> str:
    """Return the error of a caller whose keys are not those of the node that handles its message."""
    async with (
        our_node(V5, server.address, actors=(Reversing(),), security=handler) as other,
        our_node(V5, server.address, security=caller, settings=SOON) as node,
    ):
        await until(lambda: membership(node).refusals.all)
        with pytest.raises(DeliveryError) as caught:
            await node.hub.send(Hello(b"12abc"), callback=Ehhlo, timeout=20)
        assert caught.value.outcome == "unroutable"
        text = str(caught.value)
        await until(lambda: membership(other).refusals.all)  # and the other side says it too
        assert other.identity.decode() in text
        return text


@on_loop
async def test_a_caller_hears_that_its_keys_are_wrong_or_missing() -> None:
    async with rendezvous() as server:
        assert "refused: no key of domain 'orders' here (sealed, sha256)" in await refusal(
            server, secured(OTHER), secured()
        )
        assert "refused: no key of domain 'orders', in which node" in await refusal(
            server, secured(name="news"), secured()
        )
        assert "refused: no key of domain 'orders', in which node" in await refusal(server, NoSecurity(), secured())
        assert "is not in a domain (unsigned); this node takes: 'orders' (sealed, sha256)" in await refusal(
            server, secured(), NoSecurity()
        )
        assert "(sealed, sha512), which is sealed, sha256 here" in await refusal(
            server, secured(), secured(algorithm="sha512")
        )


@on_loop
async def test_a_message_of_no_domain_says_so_to_its_sender() -> None:
    elsewhere = DomainSecurity([Domain("orders", MINE, ["ORDER"])], clock=time.time)
    async with rendezvous() as server, our_node(V5, server.address, security=elsewhere, settings=SOON) as node:
        with pytest.raises(DeliveryError, match=r"refused: HELLO/1 belongs to no domain of this node \('orders'"):
            await node.hub.send(Hello(b"12abc"), callback=Ehhlo, timeout=20)


@pytest.mark.parametrize(
    ("stranger", "told"),
    [
        (NoSecurity(), "is not in a domain (unsigned); this node takes: 'orders' (sealed, sha256)"),
        (
            secured(profile="reference", algorithm="md5"),
            "has another algorithm or profile for domain 'orders' (reference, md5), which is sealed, sha256 here",
        ),
    ],
)
@on_loop
async def test_a_node_that_is_set_up_otherwise_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, stranger: DomainSecurity | NoSecurity, told: str
) -> None:
    async with (
        rendezvous() as server,
        our_node(V5, server.address, security=secured()) as node,
        our_node(V5, server.address, actors=(Reversing(),), security=stranger) as other,
    ):
        await until(lambda: membership(node).refusals.all)
        own = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        about = [line for line in own if line.startswith(f"refused: node {other.identity.decode()}")]
        assert len(about) == 1
        assert told in about[0]
