"""Two nodes with one identity: each of them notices, and says what to do."""

from __future__ import annotations

import logging

import pytest
from google.protobuf.message import Message as Content

from hopline import Network, Node
from hopline.cluster.service import REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES, UNREGISTER_NODE, registration
from hopline.cluster.service_pb2 import RequestClusterMessageRoutes, UnregisterNode
from hopline.message import MessageIdentifier, new_hub_identity
from hopline.routing import Route
from tests.cluster.test_membership import ME, World, joined_world
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
def test_whatever_a_namesake_says_is_noticed_once_a_minute_and_answered(
    said: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = joined_world()
    for _ in range(10):
        world.say_in("", *said_elsewhere()[said])
        world.pass_time(0.1)
    (complaint,) = complaints(caplog)
    for part in (ME.identity.decode(), ME.uri, ELSEWHERE, "node.identity"):
        assert part in complaint
    assert world.announcements()  # so that the namesake hears of it too, and others know this node again
    assert not world.learned
    for _ in range(60):
        world.leader_speaks()
        world.pass_time(1.0)
    world.say_in("", *said_elsewhere()[said])
    assert len(complaints(caplog)) == 2


def test_what_this_node_says_itself_is_no_namesakes(caplog: pytest.LogCaptureFixture) -> None:
    world: World = joined_world()
    for kind, content in said_elsewhere(ME.uri):
        world.say_in("", kind, content)
    assert not complaints(caplog)


@on_loop
async def test_both_nodes_say_so(caplog: pytest.LogCaptureFixture) -> None:
    async with rendezvous() as server:
        network = Network(rendezvous=(server.address,), cluster=QUICK)
        async with Node(identity=b"twin", network=network) as first, Node(identity=b"twin", network=network) as second:
            for one, other in ((first, second), (second, first)):
                expected = f"this one, at {one.uri}, and another one, at {other.uri}"
                await until(lambda expected=expected: any(expected in said for said in complaints(caplog)))  # type: ignore[misc]
