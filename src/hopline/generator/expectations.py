"""What the script of a template says about all of its flows, and about the records of each of its record_types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import Event, shown
from hopline.generator.compiled_scenarios import CompiledFlow, CompiledScenarios
from hopline.generator.flow_template import MISSING, FlowTemplate, Step, TransitStatus
from hopline.message import Message

OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")


class RecordTypeTexts:
    """What is the same for all records of a record_type, by record_type."""

    def __init__(self, compiled: CompiledScenarios) -> None:
        steps, cells = compiled.record_type_steps, compiled.record_type_flows
        messages = [compiled.message_of(record_type) for record_type in range(len(steps))]
        self._texts: Mapping[str, npt.NDArray[np.object_]] = {
            "fault": np.array([step.mark[0] for step in steps], object),
            "kind": np.array([step.mark[1] for step in steps], object),
            "event": np.array([str(step.event) for step in steps], object),
            "code": np.array([step.code for step in steps], object),
            "verdict": np.array([step.verdict for step in steps], object),
            "identity": np.array([shown(message.identity) for message in messages], object),
            "domain": np.array([message.domain for message in messages], object),
        }
        flows = [
            compiled_flow.template.is_flow and not step.code for compiled_flow, step in zip(cells, steps, strict=True)
        ]
        self.is_flow = np.array(flows, bool)
        self.is_incident = np.array([step.verdict in OFFENCES or step.mark[0] == "unsigned" for step in steps], bool)

    def text(self, what: str, record_type: npt.NDArray[np.int32]) -> pa.Array:
        """Give a text for each record."""
        return pa.array(self._texts[what][record_type], pa.string())


def of_the_flow(compiled_flow: CompiledFlow) -> list[int]:
    """Give the steps whose records belong to the flow: what somebody forged does not."""
    return [step for step in compiled_flow.recorded if not compiled_flow.template.steps[step].is_offence]


def outcomes_of(compiled_flow: CompiledFlow) -> tuple[str, str]:
    """Return how its flows and their callbacks end, as far as it is recorded: an answer is late unless it was taken."""
    expected = compiled_flow.template.expected
    if expected.is_overtime and expected.taken_at not in compiled_flow.record_types:
        return "expired", "late"
    return expected.outcome, expected.callback


def is_stitched(compiled_flow: CompiledFlow) -> bool:
    """Tell whether there is a flow at all: not without a correlation id, and not of what cannot be read."""
    return compiled_flow.template.is_flow and not all(
        compiled_flow.template.steps[step].code for step in of_the_flow(compiled_flow)
    )


def roots_of(compiled_flow: CompiledFlow) -> list[int]:
    """Give the steps that show how a flow began; none where no record does."""
    template = compiled_flow.template
    if 0 in compiled_flow.recorded:
        return [0]
    return [
        step
        for step in asked_at(compiled_flow)
        if template.steps[step].event is Event.SENT and _message(template, step).hops == 1
    ]


def firsts_of(compiled_flow: CompiledFlow) -> list[int]:
    """Give the steps of which the first in time begins a flow whose root nobody saw: those sent on least."""
    steps, template = of_the_flow(compiled_flow), compiled_flow.template
    ranks = {step: max(_message(template, step).hops, len(_message(template, step).routing)) for step in steps}
    return [step for step in steps if ranks[step] == min(ranks.values())]


def leaves_of(compiled_flow: CompiledFlow) -> list[int]:
    """Give the steps that no recorded step of the flow follows."""
    steps = of_the_flow(compiled_flow)
    followed = {_recorded_before(compiled_flow, step) for step in steps}
    return [step for step in steps if step not in followed]


def _recorded_before(compiled_flow: CompiledFlow, step: int) -> int:
    before = compiled_flow.template.steps[step].follows
    while before != MISSING and before not in compiled_flow.record_types:
        before = compiled_flow.template.steps[before].follows
    return before


def asked_at(compiled_flow: CompiledFlow) -> list[int]:
    """Give the steps that show the first message of a flow where it began, as it was submitted or sent."""
    return [step for step in _questions(compiled_flow) if compiled_flow.template.steps[step].role == 0]


def is_question_seen(compiled_flow: CompiledFlow) -> bool:
    """Tell whether any record shows the first message of a flow as it was submitted, sent or received."""
    return bool(_questions(compiled_flow))


def _questions(compiled_flow: CompiledFlow) -> list[int]:
    template, events = compiled_flow.template, (Event.SUBMITTED, Event.SENT, Event.RECEIVED)
    return [
        step
        for step in compiled_flow.recorded
        if template.steps[step].event in events and template.snapshots[template.steps[step].snapshot].message_index == 0
    ]


def counts_as_hop(step: Step) -> bool:
    """Tell whether a step is a transit of its own: a sending, or an arrival whose sending nobody saw."""
    return step.event is Event.SENT or step.arrival is TransitStatus.UNSENT


def _message(template: FlowTemplate, step: int) -> Message:
    return template.snapshots[template.steps[step].snapshot].message
