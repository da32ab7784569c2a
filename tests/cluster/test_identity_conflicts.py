"""Two nodes with one identity: each of them notices, and says what to do."""

from __future__ import annotations

import logging

import pytest
from google.protobuf.message import Message as Content

from hopline import Network, Node
from hopline.cluster.messages.service import REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES, UNREGISTER_NODE, registration
from hopline.cluster.messages.service_pb2 import RequestClusterMessageRoutes, UnregisterNode
from hopline.message import MessageIdentifier, new_hub_identity
from hopline.routing import Route
from tests.cluster.member_world import ME, World, joined_world
from tests.network.ours import QUICK, rendezvous
from tests.node.running import on_loop, until

ELSEWHERE = "tcp://10.0.0.9:5101"


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    return [error for error in errors if error.startswith("two nodes")]


def said_elsewhere(uri: str = ELSEWHERE) -> list[tuple[MessageIdentifier, Content]]:
    """Return what a node says under this node's identity, wherever it is."""
    hub = Route(new_hub_identity())
    return [
        (REGISTER_ROUTE, registration(uri, ME.identity, "tcp://10.0.0.9:5102", 5.0, [hub])),
        (REQUEST_CLUSTER_ROUTES, RequestClusterMessageRoutes(requestor_uri=uri, requestor_node_identity=ME.identity)),
        (UNREGISTER_NODE, UnregisterNode(uri=uri, receiver_node_identity=ME.identity)),
    ]


@pytest.mark.parametrize("said", [0, 1, 2])
def test_messages_of_another_node_with_this_identity_are_logged_once_a_minute_and_answered(
    said: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = joined_world()
    for _ in range(10):
        world.receive_in("", *said_elsewhere()[said])
        world.pass_time(0.1)
    (complaint,) = complaints(caplog)
    for part in (ME.identity.decode(), ME.uri, ELSEWHERE, "node.identity"):
        assert part in complaint
    assert world.announcements()  # so that the other node notices too, and others know this one again
    assert not world.learned
    for _ in range(60):
        world.receive_server_heartbeat()
        world.pass_time(1.0)
    world.receive_in("", *said_elsewhere()[said])
    assert len(complaints(caplog)) == 2


def test_own_messages_are_not_an_identity_conflict(caplog: pytest.LogCaptureFixture) -> None:
    world: World = joined_world()
    for kind, content in said_elsewhere(ME.uri):
        world.receive_in("", kind, content)
    assert not complaints(caplog)


@on_loop
async def test_both_nodes_log_the_conflict(caplog: pytest.LogCaptureFixture) -> None:
    async with rendezvous() as server:
        network = Network(rendezvous=(server.address,), cluster=QUICK)
        async with Node(identity=b"twin", network=network) as first, Node(identity=b"twin", network=network) as second:
            for one, other in ((first, second), (second, first)):
                expected = f"this one, at {one.uri}, and another one, at {other.uri}"
                await until(lambda expected=expected: any(expected in said for said in complaints(caplog)))  # type: ignore[misc]
