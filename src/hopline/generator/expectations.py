"""What a flow template implies about all of its flows.

These functions answer by the definitions of docs/reference/pipeline.md, but from the template alone, at the level that
is captured: a step without a record does not count, because no reader of the capture can know of it.
"""

from __future__ import annotations

from hopline.capture.records import Event
from hopline.generator.compiled_scenarios import CompiledFlow
from hopline.generator.flow_template import MISSING, Step, TransitStatus

_REQUEST_EVENTS = (Event.SUBMITTED, Event.SENT, Event.RECEIVED)


def steps_of_flow(flow: CompiledFlow) -> list[int]:
    """Return the recorded steps that belong to the flow; forged and replayed messages do not."""
    numbers: list[int] = []
    for number in flow.record_types:
        step = flow.template.steps[number]
        if not step.is_offence:
            numbers.append(number)
    return numbers


def flow_outcome(flow: CompiledFlow) -> str:
    """Return how the flow ends, as far as records show it."""
    if _is_late(flow):
        return "expired"
    return flow.template.expected.outcome


def callback_outcome(flow: CompiledFlow) -> str:
    """Return how the flow's callback ends, as far as records show it."""
    if _is_late(flow):
        return "late"
    return flow.template.expected.callback


def _is_late(flow: CompiledFlow) -> bool:
    """Return whether the answer is late: it is, unless a record shows that the requester took it."""
    expected = flow.template.expected
    was_taken = expected.resolved_at in flow.record_types
    return expected.is_overtime and not was_taken


def is_flow(flow: CompiledFlow) -> bool:
    """Return whether the records form a flow: they have a correlation id, and some can be decoded."""
    template = flow.template
    if not template.is_flow:
        return False
    for number in steps_of_flow(flow):
        step = template.steps[number]
        if not step.reject_code:
            return True
    return False


def root_steps(flow: CompiledFlow) -> list[int]:
    """Return the steps that show how the flow began; none if no record does."""
    if 0 in flow.record_types:
        return [0]
    template = flow.template
    roots: list[int] = []
    for number in requester_steps(flow):
        step = template.steps[number]
        snapshot = template.snapshot_of(number)
        is_sent = step.event is Event.SENT
        is_first_hop = snapshot.message.hops == 1
        if is_sent and is_first_hop:
            roots.append(number)
    return roots


def earliest_steps(flow: CompiledFlow) -> list[int]:
    """Return the steps the first of which begins a flow without a recorded root: those with the fewest hops."""
    ranks: dict[int, int] = {}
    for step in steps_of_flow(flow):
        snapshot = flow.template.snapshot_of(step)
        message = snapshot.message
        routers = len(message.routing)
        ranks[step] = max(message.hops, routers)
    lowest = min(ranks.values())
    return [step for step, rank in ranks.items() if rank == lowest]


def leaf_steps(flow: CompiledFlow) -> list[int]:
    """Return the steps that no recorded step of the flow follows."""
    steps = steps_of_flow(flow)
    followed = {_recorded_predecessor(flow, step) for step in steps}
    return [step for step in steps if step not in followed]


def _recorded_predecessor(flow: CompiledFlow, step: int) -> int:
    steps = flow.template.steps
    predecessor = steps[step].follows
    while predecessor != MISSING and predecessor not in flow.record_types:
        predecessor = steps[predecessor].follows
    return predecessor


def requester_steps(flow: CompiledFlow) -> list[int]:
    """Return the steps that show the first message at the requester, submitted or sent."""
    numbers: list[int] = []
    for number in request_steps(flow):
        step = flow.template.steps[number]
        if step.role == 0:
            numbers.append(number)
    return numbers


def request_steps(flow: CompiledFlow) -> list[int]:
    """Return the steps that show the first message of the flow, submitted, sent or received."""
    template = flow.template
    requests: list[int] = []
    for number in flow.record_types:
        step = template.steps[number]
        snapshot = template.snapshot_of(number)
        is_first_message = snapshot.message_index == 0
        if is_first_message and step.event in _REQUEST_EVENTS:
            requests.append(number)
    return requests


def is_hop(step: Step) -> bool:
    """Return whether a step counts as a hop: a sending, or an arrival whose sending is not captured."""
    if step.event is Event.SENT:
        return True
    return step.transit is TransitStatus.UNSENT
