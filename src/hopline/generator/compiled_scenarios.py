"""Scenarios compiled for generation: frame templates of their messages, and lookup tables by record type.

A record type is one step of one flow template that leaves a record. Apart from times, nodes and bytes, all records of a
type have the same values, so these stand in arrays indexed by record type, and whole columns of records are made by one
numpy lookup.
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
    """A flow template with the frame templates of its snapshots and of the bytes that signatures cover."""

    scenario: Scenario
    template: FlowTemplate
    share: float  # of its scenario's flows that have its wire format
    frame_templates: dict[int, FrameTemplate] = field(default_factory=dict)  # by snapshot
    signed_contents: dict[int, FrameTemplate] = field(default_factory=dict)  # by message index
    record_types: dict[int, int] = field(default_factory=dict)  # by step, in the order of steps
    nested: list[CompiledFlow] = field(default_factory=list)  # one for each request of the template

    @property
    def recorded_steps(self) -> list[int]:
        """The steps that leave a record."""
        return list(self.record_types)

    @property
    def flow_count(self) -> int:
        """How many flows one instance is: itself and those that its handlers begin."""
        return 1 + sum(flow.flow_count for flow in self.nested)

    def record_count(self, items: int) -> int:
        """Return how many captured records one instance leaves, nested flows included.

        Args:
            items: How often the repeated steps of a huge flow happen.
        """
        count = 0
        for step in self.record_types:
            if self.template.steps[step].is_dropped:
                continue
            count += items if step in self.template.repeated else 1
        return count + sum(flow.record_count(items) for flow in self.nested)


class CompiledScenarios:
    """All compiled flows, and the lookup tables by record type."""

    def __init__(self, scenarios: Iterable[Scenario], formats: Sequence[WireFormat], level: Level) -> None:
        self.level = level
        self.flows: list[CompiledFlow] = []
        self.record_type_flows: list[CompiledFlow] = []
        self.record_type_steps: list[Step] = []
        self._frame_templates: list[FrameTemplate] = []
        self._frame_template_indexes: list[int] = []  # by record type
        for scenario in scenarios:
            self._add_scenario(scenario, formats)
        self._link_nested_flows()
        self._make_lookup_tables()

    # -- compiling -----------------------------------------------------------------------------------------------------

    def _add_scenario(self, scenario: Scenario, formats: Sequence[WireFormat]) -> None:
        allowed = [wire_format for wire_format in scenario.formats if wire_format in formats]
        total = sum(FORMAT_WEIGHTS[wire_format] for wire_format in allowed)
        for wire_format in allowed:
            template = scenario.build(wire_format)
            share = FORMAT_WEIGHTS[wire_format] / total
            self._add_flow(CompiledFlow(scenario, template, share))

    def _add_flow(self, flow: CompiledFlow) -> None:
        template = flow.template
        events = LEVEL_EVENTS[self.level]
        captured = template.captured
        template_indexes: dict[int, int] = {}
        for number, step in enumerate(template.steps):
            if step.event not in events or not captured[step.role]:
                continue
            if step.snapshot not in template_indexes:
                template_indexes[step.snapshot] = len(self._frame_templates)
                self._compile_snapshot(flow, step.snapshot)
            flow.record_types[number] = len(self.record_type_steps)
            self.record_type_flows.append(flow)
            self.record_type_steps.append(step)
            self._frame_template_indexes.append(template_indexes[step.snapshot])
        if flow.record_types:
            self.flows.append(flow)

    def _compile_snapshot(self, flow: CompiledFlow, number: int) -> None:
        snapshot = flow.template.snapshots[number]
        roles = len(flow.template.roles)
        index = snapshot.message_index
        frame_template = frame_template_of(snapshot.frames, index, roles)
        flow.frame_templates[number] = frame_template
        self._frame_templates.append(frame_template)
        if snapshot.signer and index not in flow.signed_contents:
            content = mac_input(snapshot.message)
            flow.signed_contents[index] = frame_template_of([content], index, roles)

    def _link_nested_flows(self) -> None:
        by_name: dict[tuple[str, WireFormat], CompiledFlow] = {}
        for flow in self.flows:
            by_name[flow.scenario.name, flow.template.wire_format] = flow
        for flow in self.flows:
            wire_format = flow.template.wire_format
            flow.nested = [by_name[request.scenario, wire_format] for request in flow.template.requests]

    # -- lookup tables -------------------------------------------------------------------------------------------------

    def _make_lookup_tables(self) -> None:
        steps = self.record_type_steps
        self.events = np.array([EVENTS.index(step.event) for step in steps], np.int8)
        self.receiver_groups = np.array([_receiver_group(step.receiver) for step in steps], np.int64)
        self.receiver_names = pa.array([service.name.title() for service in Service], pa.string())
        self.receiver_name_codes = np.array([_service_of(step) for step in steps], np.int32)
        handlers = [self._handler_of(record_type) for record_type in range(len(steps))]
        self.handlers, self.handler_codes = _coded(handlers)
        self.reasons, self.reason_codes = _coded([step.reason for step in steps])
        self.is_dropped = np.array([step.is_dropped for step in steps], bool)
        self.is_reject = np.array([bool(step.reject_code) for step in steps], bool)
        self.is_marked = np.array([bool(step.mark.fault) for step in steps], bool)
        broadcasts = [self._is_broadcast(record_type) for record_type in range(len(steps))]
        self.is_broadcast = np.array(broadcasts, bool)
        self.frame_template_indexes = np.array(self._frame_template_indexes, np.int64)
        self.frame_counts = np.array([template.frame_count for template in self._frame_templates], np.int64)
        self.frame_lengths = pa.array([template.lengths for template in self._frame_templates], pa.binary())

    def _handler_of(self, record_type: int) -> str:
        """Return the method that handles the message of a record type, or that submitted it."""
        step = self.record_type_steps[record_type]
        if _service_of(step) == MISSING:
            return ""
        message = self.message_of(record_type)
        if step.cause != MISSING:
            template = self.record_type_flows[record_type].template
            message = template.snapshot_of(step.cause).message
        name = message.identity.decode()
        return name.replace(".", "_").lower()

    def _is_broadcast(self, record_type: int) -> bool:
        is_reject = bool(self.record_type_steps[record_type].reject_code)
        message = self.message_of(record_type)
        return message.distribution == Distribution.BROADCAST and not is_reject

    def message_of(self, record_type: int) -> Message:
        """Return the message that the records of a type show, with placeholders."""
        template = self.record_type_flows[record_type].template
        step = self.record_type_steps[record_type]
        snapshot = template.snapshots[step.snapshot]
        return snapshot.message


def _coded(texts: list[str]) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Return the distinct texts and, for each text, its index among them; `MISSING` for an empty one."""
    distinct = sorted({text for text in texts if text})
    codes = {text: code for code, text in enumerate(distinct)}
    indexes = [codes.get(text, MISSING) for text in texts]
    return pa.array(distinct, pa.string()), np.array(indexes, np.int32)


def _service_of(step: Step) -> int:
    """Return the service whose actor a step is about; `MISSING` for a hub, which has no class to name."""
    if step.receiver is None or step.receiver == HUB:
        return MISSING
    return step.receiver


def _receiver_group(receiver: int | None) -> int:
    """Return the block of `Topology.receivers` that has a receiver: the hubs, or the actors of a service."""
    if receiver is None:
        return MISSING
    return 0 if receiver == HUB else 1 + receiver
