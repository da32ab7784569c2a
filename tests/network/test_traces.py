"""A flow over several processes is one trace."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.network.processes import Fleet, until


def named(spans: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {span["name"]: span for span in spans}


@pytest.mark.parametrize("wire_format", ["v5", "v6"])
def test_a_flow_over_three_processes_is_one_trace(wire_format: str) -> None:
    with Fleet() as fleet:
        fleet.start_rendezvous(1)
        common = {"traced": True, "wire_format": wire_format}
        asking = fleet.start_node("asking", works=False, **common)
        delegating = fleet.start_node("delegating", works=False, delegates=True, **common)
        working = fleet.start_node("working", **common)
        assert asking.ask("errand") == {"by": "working"}
        until(lambda: len(working.ask("spans")["spans"]) == 2, what="the end of the last span")
        found = [named(process.ask("spans")["spans"]) for process in (asking, delegating, working)]
    assert [set(spans) for spans in found] == [
        {"send Errand"},
        {"process Errand", "send Work"},
        {"process Work", "send Done"},
    ]
    spans = found[0] | found[1] | found[2]
    assert len({span["context"]["trace_id"] for span in spans.values()}) == 1
    order = ["send Errand", "process Errand", "send Work", "process Work", "send Done"]
    for sent, caused in itertools.pairwise(order):
        assert spans[caused]["parent_id"] == spans[sent]["context"]["span_id"], caused
    for kind in ("Errand", "Work"):
        (link,) = spans[f"process {kind}"]["links"]
        assert link["context"]["span_id"] == spans[f"send {kind}"]["context"]["span_id"]
