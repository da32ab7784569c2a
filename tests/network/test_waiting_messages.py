"""What waits in a link to a peer: whatever happens meanwhile, it ends once, and holds nobody else up."""

from __future__ import annotations

from hopline import Message, NodeSettings, Outcome, WireFormat
from hopline.cluster import ClusterSettings
from hopline.cluster.messages.formats import Evidence
from tests.node.running import on_loop, until

from .frames import V5
from .ours import Ehhlo, Hello, Reversing, attachment, handlers, our_node, rendezvous


@on_loop
async def test_what_can_no_longer_be_written_comes_back_and_lets_the_others_pass() -> None:
    async with (
        rendezvous() as server,
        our_node(V5, server.address, actors=(Reversing(),), settings=NodeSettings(discovery_timeout=0.1)) as worker,
        our_node(V5, server.address) as client,
    ):
        await until(lambda: handlers(client, b"HELLO"))
        attachment(client).outbound.peers.disconnect(worker.identity)
        two_bodies = Message.flow_start(b"HELLO", b"one").clone(bodies=(b"one", b"two"))
        await client.hub.send_one_way(two_bodies)  # waits for the handshake
        assert (client.stats().outcomes[Outcome.SENT], client.stats().waiting) == (0, 1)
        # It was a node of ours, and is now one of the reference, whose messages have one body.
        attachment(client).note_read_formats(worker.identity, frozenset())
        attachment(client).note_written_format(worker.identity, WireFormat.FIRST, Evidence.SENT)
        assert await client.hub.send(Hello(b"abcd"), callback=Ehhlo, timeout=30.0) == b"abdc"
        assert client.stats().returned == 1
        assert client.stats().is_balanced


@on_loop
async def test_the_formats_of_those_who_wrote_last_are_known() -> None:
    known = ClusterSettings(known_nodes=3)
    async with rendezvous() as server, our_node(V5, server.address, cluster=known) as client:
        for number in range(5):
            attachment(client).note_written_format(b"%d" % number, WireFormat.V6)
        assert list(attachment(client).formats.written_by) == [b"2", b"3", b"4"]
        attachment(client).note_written_format(b"2", WireFormat.V4)
        attachment(client).note_written_format(b"5", WireFormat.V4)
        assert list(attachment(client).formats.written_by) == [b"4", b"2", b"5"]
