"""Refusals because of keys are remembered and logged once, and their cost is bounded."""

from __future__ import annotations

import logging

import msgspec
import pytest

from hopline.cluster.membership import refusals
from hopline.cluster.membership.refusals import Refusals
from hopline.cluster.messages.service import REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES, registration, service_message
from hopline.cluster.messages.service_pb2 import RequestClusterMessageRoutes
from hopline.message import Message, MessageIdentifier, new_actor_identity
from hopline.routing import Route
from hopline.security import Domain, DomainSecurity, NoSecurity, Security, SecurityReason, new_key

ORDER = MessageIdentifier(b"ORDER")
SECURITY = DomainSecurity([Domain("orders", new_key(), ["ORDER", "OTHER"])], clock=lambda: 1_000.0)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def refusals_of(security: Security) -> Refusals:
    return Refusals(security, Clock(), lambda: None)


def announcement(node: bytes, *kinds: MessageIdentifier, domain: str = "orders", signature: bytes = b"") -> Message:
    routes = [Route(new_actor_identity(), kind) for kind in kinds or (ORDER,)]
    content = registration("tcp://127.0.0.1:1", node, "tcp://127.0.0.1:2", 1.0, routes)
    return msgspec.structs.replace(service_message(REGISTER_ROUTE, content), domain=domain, signature=signature)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_repeated_refusal_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    known = refusals_of(SECURITY)
    for _ in range(5):
        assert known.record(announcement(b"node-a"), SecurityReason.UNSIGNED)
    (line,) = warnings_of(caplog)
    assert line.startswith(
        "refused: node node-a does not sign its messages in domain 'orders', which is sealed, sha256 here"
    )


@pytest.mark.parametrize(
    ("signature", "kind"),
    [
        (16, "reference, md5"),
        (20, "reference, sha1"),
        (32, "reference, sha256"),
        (64, "reference, sha512"),
        (81, "sealed, sha512"),
        (5, "signed with 5 bytes, which is no algorithm of ours"),
    ],
)
def test_another_algorithm_is_recognised_by_the_size_of_its_signatures(signature: int, kind: str) -> None:
    known = refusals_of(SECURITY)
    known.record(announcement(b"node-a", signature=bytes(signature)), SecurityReason.WRONG_PROFILE)
    assert f"({kind}), which is sealed, sha256 here" in (known.explain(ORDER) or "")


def test_a_message_is_explained_by_its_own_announcement_first() -> None:
    known = refusals_of(SECURITY)
    assert known.explain(ORDER) is None
    known.record(announcement(b"node-a", domain="news"), SecurityReason.UNKNOWN_DOMAIN)
    assert "no key of domain 'news', in which node node-a announces itself" in (known.explain(ORDER) or "")
    assert known.explain(MessageIdentifier(b"OTHER")) is None  # members of other domains are no reason
    known.record(announcement(b"node-b", signature=bytes(49)), SecurityReason.WRONG_SIGNATURE)
    assert "made the signature of node node-b" in (known.explain(MessageIdentifier(b"OTHER")) or "")
    assert "belongs to no domain of this node ('orders' (sealed, sha256))" in (
        known.explain(MessageIdentifier(b"UNMAPPED")) or ""
    )


def test_an_accepted_route_is_no_longer_explained_by_a_refusal() -> None:
    known = refusals_of(NoSecurity())
    known.record(announcement(b"node-a", signature=bytes(49)), SecurityReason.WRONG_DOMAIN)
    assert "no key of domain 'orders'" in (known.explain(ORDER) or "")
    known.accepted([Route(new_actor_identity(), ORDER)])
    assert known.explain(ORDER) is None


def test_refusals_for_other_reasons_are_not_recorded() -> None:
    known = refusals_of(SECURITY)
    assert not known.record(announcement(b"node-a"), SecurityReason.REPLAYED)
    assert not known.all


def test_a_flood_of_strangers_costs_little_and_is_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "_REMEMBERED", 50)
    clock = Clock()
    known = Refusals(SECURITY, clock, lambda: None)
    for second in range(10):
        clock.now += 1
        for stranger in range(1_000):
            known.record(announcement(b"%d-%d\n\x1b" % (second, stranger)), SecurityReason.UNSIGNED)
    assert len(known.all) == 50
    assert len(warnings_of(caplog)) == 20
    assert all(line.isprintable() for line in warnings_of(caplog))


def test_nodes_that_ask_with_other_keys_cause_one_announcement_a_second() -> None:
    clock = Clock()
    announced: list[float] = []
    known = Refusals(SECURITY, clock, lambda: announced.append(clock.now))
    question = service_message(REQUEST_CLUSTER_ROUTES, RequestClusterMessageRoutes(requestor_node_identity=b"node-a"))
    known.tick()
    known.record(announcement(b"node-a"), SecurityReason.WRONG_SIGNATURE)
    known.record(question, SecurityReason.REPLAYED)
    assert announced == []
    for _ in range(3):
        known.record(question, SecurityReason.WRONG_SIGNATURE)
    clock.now += 0.9
    known.tick()
    assert announced == [1_000.0]
    clock.now += 0.1
    known.tick()  # this announcement answers the second and the third request
    clock.now += 60
    known.tick()
    assert announced == [1_000.0, 1_001.0]
