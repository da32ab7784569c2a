"""Scenarios compiled for generation: frame templates of their messages, and lookup tables by record type.

A record type is one step of one flow template that leaves a record. Apart from times, nodes and bytes, all records of a
type have the same values, so these stand in arrays indexed by record type, and whole columns of records are made by one
numpy lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import LEVEL_EVENTS, Event, Level, shown
from hopline.generator.catalogue import FORMAT_WEIGHTS, Scenario
from hopline.generator.flow_template import HUB, MISSING, FlowTemplate, Step
from hopline.generator.frame_templates import FrameTemplate, frame_template_of
from hopline.generator.topology import Service
from hopline.message import Distribution, Message, WireFormat
from hopline.wire import mac_input

_Scalar = TypeVar("_Scalar", bound=np.generic)

EVENTS = tuple(Event)
OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")


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


@dataclass(frozen=True, slots=True)
class RecordType:
    """A step of a compiled flow that leaves a record, and what all of its records have in common."""

    flow: CompiledFlow
    step: Step
    frame_template: int  # index among all frame templates

    @property
    def message(self) -> Message:
        """The message that the records show, with placeholders."""
        snapshots = self.flow.template.snapshots
        return snapshots[self.step.snapshot].message

    @property
    def event_code(self) -> int:
        """The index of its event in `EVENTS`."""
        return EVENTS.index(self.step.event)

    @property
    def receiver_group(self) -> int:
        """The block of `Topology.receivers` that has its receiver: the hubs, or the actors of a service."""
        receiver = self.step.receiver
        if receiver is None:
            return MISSING
        return 0 if receiver == HUB else 1 + receiver

    @property
    def service(self) -> int:
        """The service whose actor it is about; `MISSING` for a hub, which has no class to name."""
        receiver = self.step.receiver
        if receiver is None or receiver == HUB:
            return MISSING
        return receiver

    @property
    def handler(self) -> str:
        """The method that handles or submitted the message; empty outside of actors."""
        if self.service == MISSING:
            return ""
        message = self.message
        if self.step.cause != MISSING:
            handled = self.flow.template.snapshot_of(self.step.cause)
            message = handled.message
        name = message.identity.decode()
        return name.replace(".", "_").lower()

    @property
    def reason(self) -> str:
        """Why the message ended; empty for other events."""
        return self.step.reason

    @property
    def event(self) -> str:
        """The name of its event."""
        return str(self.step.event)

    @property
    def identity(self) -> str:
        """The identity of its message."""
        return shown(self.message.identity)

    @property
    def domain(self) -> str:
        """The domain of its message."""
        return self.message.domain

    @property
    def fault(self) -> str:
        """The fault that its records mark, if any."""
        return self.step.mark.fault

    @property
    def kind(self) -> str:
        """The kind of that fault."""
        return self.step.mark.kind

    @property
    def code(self) -> str:
        """Why its frames cannot be decoded; empty if they can."""
        return self.step.reject_code

    @property
    def verdict(self) -> str:
        """The verdict on the message's signature."""
        return self.step.verdict

    @property
    def is_dropped(self) -> bool:
        """Whether its records are missing in the capture."""
        return self.step.is_dropped

    @property
    def is_reject(self) -> bool:
        """Whether its frames cannot be decoded."""
        return bool(self.code)

    @property
    def is_marked(self) -> bool:
        """Whether its records mark a fault."""
        return bool(self.fault)

    @property
    def is_incident(self) -> bool:
        """Whether its records are incidents of security."""
        return self.verdict in OFFENCES or self.fault == "unsigned"

    @property
    def is_broadcast(self) -> bool:
        """Whether its message is a broadcast."""
        is_broadcast = self.message.distribution == Distribution.BROADCAST
        return is_broadcast and not self.is_reject

    @property
    def has_flow(self) -> bool:
        """Whether its records belong to a flow."""
        return self.flow.template.is_flow and not self.is_reject


class CompiledScenarios:
    """All compiled flows, and the lookup tables by record type."""

    def __init__(self, scenarios: Iterable[Scenario], formats: Sequence[WireFormat], level: Level) -> None:
        self.level = level
        self.flows: list[CompiledFlow] = []
        self._record_types: list[RecordType] = []
        self._frame_templates: list[FrameTemplate] = []
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
            flow = CompiledFlow(scenario, template, share)
            self._add_record_types(flow)
            if flow.record_types:
                self.flows.append(flow)

    def _add_record_types(self, flow: CompiledFlow) -> None:
        events = LEVEL_EVENTS[self.level]
        captured = flow.template.captured
        frame_templates: dict[int, int] = {}  # by snapshot
        for number, step in enumerate(flow.template.steps):
            if step.event not in events or not captured[step.role]:
                continue
            if step.snapshot not in frame_templates:
                frame_templates[step.snapshot] = len(self._frame_templates)
                self._compile_snapshot(flow, step.snapshot)
            record_type = RecordType(flow, step, frame_templates[step.snapshot])
            flow.record_types[number] = len(self._record_types)
            self._record_types.append(record_type)

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
            for request in flow.template.requests:
                flow.nested.append(by_name[request.scenario, wire_format])

    # -- lookup tables -------------------------------------------------------------------------------------------------

    def _make_lookup_tables(self) -> None:
        self.events = self.column("event_code", np.int8)
        self.receiver_groups = self.column("receiver_group", np.int64)
        self.receiver_name_codes = self.column("service", np.int32)
        service_names = [service.name.title() for service in Service]
        self.receiver_names = pa.array(service_names, pa.string())
        self.handlers, self.handler_codes = self._coded_column("handler")
        self.reasons, self.reason_codes = self._coded_column("reason")
        self.is_dropped = self.column("is_dropped", np.bool_)
        self.is_reject = self.column("is_reject", np.bool_)
        self.is_marked = self.column("is_marked", np.bool_)
        self.is_broadcast = self.column("is_broadcast", np.bool_)
        self.frame_templates = self.column("frame_template", np.int64)
        frame_counts = [template.frame_count for template in self._frame_templates]
        self.frame_counts = np.array(frame_counts, np.int64)
        frame_lengths = [template.lengths for template in self._frame_templates]
        self.frame_lengths = pa.array(frame_lengths, pa.binary())

    def column(self, name: str, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
        """Return an attribute of all record types, by record type."""
        values = [getattr(record_type, name) for record_type in self._record_types]
        return np.array(values, dtype)

    def _coded_column(self, name: str) -> tuple[pa.Array, npt.NDArray[np.int32]]:
        """Return the distinct texts of an attribute, and by record type the index among them or `MISSING`."""
        texts = [getattr(record_type, name) for record_type in self._record_types]
        distinct = sorted(set(texts) - {""})
        codes = {text: code for code, text in enumerate(distinct)}
        indexes = [codes.get(text, MISSING) for text in texts]
        return pa.array(distinct, pa.string()), np.array(indexes, np.int32)
