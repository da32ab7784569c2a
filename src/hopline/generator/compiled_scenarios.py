"""All scenarios compiled: templates of their messages, and a number for each step that leaves a record.

That number is the record type: what a record says beside times, nodes and bytes is the same for all of its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hopline.capture.records import LEVEL_EVENTS, Event, Level
from hopline.generator.catalogue import FORMAT_WEIGHTS, Scenario
from hopline.generator.flow_template import HUB, MISSING, FlowTemplate, Step
from hopline.generator.frame_templates import FrameTemplate, frame_template_of
from hopline.generator.topology import Service
from hopline.message import Distribution, Message, WireFormat
from hopline.wire import mac_input

EVENTS = tuple(Event)


@dataclass(slots=True)
class CompiledFlow:
    """A template in one format, with the templates of its snapshots and of what their signatures cover."""

    scenario: Scenario
    template: FlowTemplate
    share: float  # among the formats of its scenario
    templates: dict[int, FrameTemplate] = field(default_factory=dict)
    signed_contents: dict[int, FrameTemplate] = field(default_factory=dict)  # by message_index
    recorded: list[int] = field(default_factory=list)  # steps
    record_types: dict[int, int] = field(default_factory=dict)  # by step
    nested: list[CompiledFlow] = field(default_factory=list)  # by request of the template

    @property
    def flows(self) -> int:
        """How many flows one of its flows is, those that its handlers begin included."""
        return 1 + sum(compiled_flow.flows for compiled_flow in self.nested)

    def records(self, items: int) -> int:
        """Count the records of one flow and those inside it that stand in captures; a huge flow has so many items."""
        own = sum(
            (items if step in self.template.repeated else 1)
            for step in self.recorded
            if not self.template.steps[step].is_dropped
        )
        return own + sum(compiled_flow.records(items) for compiled_flow in self.nested)


class CompiledScenarios:
    """Cells and record_types."""

    def __init__(self, scenes: Iterable[Scenario], formats: Sequence[WireFormat], level: Level) -> None:
        self.level = level
        self.cells: list[CompiledFlow] = []
        self.record_type_flows: list[CompiledFlow] = []
        self.record_type_steps: list[Step] = []
        self._templates: list[FrameTemplate] = []
        self._template_of_site: list[int] = []
        for scenario in scenes:
            allowed = [one for one in scenario.formats if one in formats]
            total = sum(FORMAT_WEIGHTS[one] for one in allowed)
            for one in allowed:
                self._add(scenario, scenario.template(one), FORMAT_WEIGHTS[one] / total)
        by_name = {
            (compiled_flow.scenario.name, compiled_flow.template.wire_format): compiled_flow
            for compiled_flow in self.cells
        }
        for compiled_flow in self.cells:
            compiled_flow.nested = [
                by_name[request.scenario, compiled_flow.template.wire_format]
                for request in compiled_flow.template.requests
            ]
        self._make_tables()

    def _add(self, scenario: Scenario, template: FlowTemplate, share: float) -> None:
        compiled_flow = CompiledFlow(scenario, template, share)
        events, captured = LEVEL_EVENTS[self.level], template.captured
        numbers: dict[int, int] = {}
        for number, step in enumerate(template.steps):
            if step.event not in events or not captured[step.role]:
                continue
            snapshot = template.snapshots[step.snapshot]
            if step.snapshot not in compiled_flow.templates:
                compiled_flow.templates[step.snapshot] = frame_template_of(
                    snapshot.frames, snapshot.message_index, len(template.roles)
                )
                numbers[step.snapshot] = len(self._templates)
                self._templates.append(compiled_flow.templates[step.snapshot])
            if snapshot.signer and snapshot.message_index not in compiled_flow.signed_contents:
                content = mac_input(snapshot.message)
                compiled_flow.signed_contents[snapshot.message_index] = frame_template_of(
                    [content], snapshot.message_index, len(template.roles)
                )
            compiled_flow.record_types[number] = len(self.record_type_steps)
            compiled_flow.recorded.append(number)
            self.record_type_flows.append(compiled_flow)
            self.record_type_steps.append(step)
            self._template_of_site.append(numbers[step.snapshot])
        if compiled_flow.recorded:
            self.cells.append(compiled_flow)

    def _make_tables(self) -> None:
        steps, messages = (
            self.record_type_steps,
            [self.message_of(record_type) for record_type in range(len(self.record_type_steps))],
        )
        self.events = np.array([EVENTS.index(step.event) for step in steps], np.int8)
        self.receivers = np.array([_receiver_group(step.receiver) for step in steps], np.int64)
        self.receiver_names = pa.array([service.name.title() for service in Service], pa.string())
        self.receiver_name_codes = np.array([_service(step) for step in steps], np.int32)
        handlers = [self._handler_of(record_type) for record_type in range(len(steps))]
        self.handlers = pa.array(sorted({name for name in handlers if name}), pa.string())
        codes = {name: code for code, name in enumerate(self.handlers.to_pylist())}
        self.handler_codes = np.array([codes.get(name, MISSING) for name in handlers], np.int32)
        self.is_dropped = np.array([step.is_dropped for step in steps], bool)
        self.is_reject = np.array([bool(step.code) for step in steps], bool)
        self.is_marked = np.array([bool(step.mark[0]) for step in steps], bool)
        self.is_checked = np.array([bool(step.verdict) and not step.code for step in steps], bool)
        self.is_broadcast = np.array(
            [
                message.distribution == Distribution.BROADCAST and not step.code
                for step, message in zip(steps, messages, strict=True)
            ],
            bool,
        )
        reasons = sorted({step.reason for step in steps if step.reason})
        self.reasons = pa.array(reasons, pa.string())
        self.reason_codes = np.array(
            [reasons.index(step.reason) if step.reason else MISSING for step in steps], np.int32
        )
        self.templates_of_record_types = np.array(self._template_of_site, np.int64)
        self.frame_counts = np.array([template.frames for template in self._templates], np.int64)
        self.frame_lengths = pa.array([template.lengths for template in self._templates], pa.binary())

    def _handler_of(self, record_type: int) -> str:
        """Return the method of a service that handles the message of a record_type, or that submitted it."""
        step, template = self.record_type_steps[record_type], self.record_type_flows[record_type].template
        if _service(step) == MISSING:
            return ""
        snapshot = step.snapshot if step.cause == MISSING else template.steps[step.cause].snapshot
        return template.snapshots[snapshot].message.identity.decode().replace(".", "_").lower()

    def message_of(self, record_type: int) -> Message:
        """Give the message that the records of a record_type show, with placeholders."""
        return (
            self.record_type_flows[record_type].template.snapshots[self.record_type_steps[record_type].snapshot].message
        )


def _service(step: Step) -> int:
    """Return the service whose actor a step is about; hubs have no class to name."""
    return MISSING if step.receiver is None or step.receiver == HUB else step.receiver


def _receiver_group(receiver: int | None) -> int:
    """Tell which block of all receivers' names a receiver is in; the node tells which of the block."""
    return MISSING if receiver is None else 0 if receiver == HUB else 1 + receiver
