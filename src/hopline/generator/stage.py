"""All plays ready to be given: templates of their messages, and a number for each step that leaves a record (a site).

What a record says beside times, nodes and bytes is the same for all records of a site, and stands in tables by site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hopline.capture.records import LEVEL_EVENTS, Event, Level
from hopline.generator.catalogue import FORMAT_WEIGHTS, Scene
from hopline.generator.script import HUB, NOBODY, Play, Step
from hopline.generator.templates import Template, template_of
from hopline.generator.topology import Service
from hopline.message import Distribution, Message, WireFormat
from hopline.wire import mac_input

EVENTS = tuple(Event)


@dataclass(slots=True)
class Cell:
    """A play in one format, with the templates of its images and of what their signatures cover."""

    scene: Scene
    play: Play
    share: float  # among the formats of its scene
    templates: dict[int, Template] = field(default_factory=dict)
    signed_contents: dict[int, Template] = field(default_factory=dict)  # by letter
    recorded: list[int] = field(default_factory=list)  # steps
    sites: dict[int, int] = field(default_factory=dict)  # by step
    nested: list[Cell] = field(default_factory=list)  # by request of the play

    @property
    def flows(self) -> int:
        """How many flows one of its flows is, those that its handlers begin included."""
        return 1 + sum(cell.flows for cell in self.nested)

    def records(self, items: int) -> int:
        """Count the records of one flow and those inside it that stand in captures; a huge flow has so many items."""
        own = sum(
            (items if step in self.play.repeated else 1)
            for step in self.recorded
            if not self.play.steps[step].is_dropped
        )
        return own + sum(cell.records(items) for cell in self.nested)


class Stage:
    """Cells and sites."""

    def __init__(self, scenes: Iterable[Scene], formats: Sequence[WireFormat], level: Level) -> None:
        self.level = level
        self.cells: list[Cell] = []
        self.site_cells: list[Cell] = []
        self.site_steps: list[Step] = []
        self._templates: list[Template] = []
        self._template_of_site: list[int] = []
        for scene in scenes:
            allowed = [one for one in scene.formats if one in formats]
            total = sum(FORMAT_WEIGHTS[one] for one in allowed)
            for one in allowed:
                self._add(scene, scene.play(one), FORMAT_WEIGHTS[one] / total)
        by_name = {(cell.scene.name, cell.play.wire_format): cell for cell in self.cells}
        for cell in self.cells:
            cell.nested = [by_name[request.scene, cell.play.wire_format] for request in cell.play.requests]
        self._make_tables()

    def _add(self, scene: Scene, play: Play, share: float) -> None:
        cell = Cell(scene, play, share)
        events, captured = LEVEL_EVENTS[self.level], play.captured
        numbers: dict[int, int] = {}
        for number, step in enumerate(play.steps):
            if step.event not in events or not captured[step.role]:
                continue
            image = play.images[step.image]
            if step.image not in cell.templates:
                cell.templates[step.image] = template_of(image.frames, image.letter, len(play.roles))
                numbers[step.image] = len(self._templates)
                self._templates.append(cell.templates[step.image])
            if image.signer and image.letter not in cell.signed_contents:
                content = mac_input(image.message)
                cell.signed_contents[image.letter] = template_of([content], image.letter, len(play.roles))
            cell.sites[number] = len(self.site_steps)
            cell.recorded.append(number)
            self.site_cells.append(cell)
            self.site_steps.append(step)
            self._template_of_site.append(numbers[step.image])
        if cell.recorded:
            self.cells.append(cell)

    def _make_tables(self) -> None:
        steps, messages = self.site_steps, [self.message_of(site) for site in range(len(self.site_steps))]
        self.events = np.array([EVENTS.index(step.event) for step in steps], np.int8)
        self.receivers = np.array([_receiver_group(step.receiver) for step in steps], np.int64)
        self.receiver_names = pa.array([service.name.title() for service in Service], pa.string())
        self.receiver_name_codes = np.array([_service(step) for step in steps], np.int32)
        handlers = [self._handler_of(site) for site in range(len(steps))]
        self.handlers = pa.array(sorted({name for name in handlers if name}), pa.string())
        codes = {name: code for code, name in enumerate(self.handlers.to_pylist())}
        self.handler_codes = np.array([codes.get(name, NOBODY) for name in handlers], np.int32)
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
            [reasons.index(step.reason) if step.reason else NOBODY for step in steps], np.int32
        )
        self.templates_of_sites = np.array(self._template_of_site, np.int64)
        self.frame_counts = np.array([template.frames for template in self._templates], np.int64)
        self.frame_lengths = pa.array([template.lengths for template in self._templates], pa.binary())

    def _handler_of(self, site: int) -> str:
        """Return the method of a service that handles the message of a site, or that submitted it."""
        step, play = self.site_steps[site], self.site_cells[site].play
        if _service(step) == NOBODY:
            return ""
        image = step.image if step.cause == NOBODY else play.steps[step.cause].image
        return play.images[image].message.identity.decode().replace(".", "_").lower()

    def message_of(self, site: int) -> Message:
        """Give the message that the records of a site show, with placeholders."""
        return self.site_cells[site].play.images[self.site_steps[site].image].message


def _service(step: Step) -> int:
    """Return the service whose actor a step is about; hubs have no class to name."""
    return NOBODY if step.receiver is None or step.receiver == HUB else step.receiver


def _receiver_group(receiver: int | None) -> int:
    """Tell which block of all receivers' names a receiver is in; the node tells which of the block."""
    return NOBODY if receiver is None else 0 if receiver == HUB else 1 + receiver
