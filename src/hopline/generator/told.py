"""What the script of a play says about all of its flows, and about the records of each of its sites."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import Event, shown
from hopline.generator.script import NOBODY, Arrival, Play, Step
from hopline.generator.stage import Cell, Stage
from hopline.message import Message

OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")


class SiteTexts:
    """What is the same for all records of a site, by site."""

    def __init__(self, stage: Stage) -> None:
        steps, cells = stage.site_steps, stage.site_cells
        messages = [stage.message_of(site) for site in range(len(steps))]
        self._texts: Mapping[str, npt.NDArray[np.object_]] = {
            "fault": np.array([step.mark[0] for step in steps], object),
            "kind": np.array([step.mark[1] for step in steps], object),
            "event": np.array([str(step.event) for step in steps], object),
            "code": np.array([step.code for step in steps], object),
            "verdict": np.array([step.verdict for step in steps], object),
            "identity": np.array([shown(message.identity) for message in messages], object),
            "domain": np.array([message.domain for message in messages], object),
        }
        flows = [cell.play.is_flow and not step.code for cell, step in zip(cells, steps, strict=True)]
        self.is_flow = np.array(flows, bool)
        self.is_incident = np.array([step.verdict in OFFENCES or step.mark[0] == "unsigned" for step in steps], bool)

    def text(self, what: str, site: npt.NDArray[np.int32]) -> pa.Array:
        """Give a text for each record."""
        return pa.array(self._texts[what][site], pa.string())


def of_the_flow(cell: Cell) -> list[int]:
    """Give the steps whose records belong to the flow: what somebody forged does not."""
    return [step for step in cell.recorded if not cell.play.steps[step].is_offence]


def outcomes_of(cell: Cell) -> tuple[str, str]:
    """Return how its flows and their callbacks end, as far as it is recorded: an answer is late unless it was taken."""
    fate = cell.play.fate
    if fate.is_overtime and fate.taken_at not in cell.sites:
        return "expired", "late"
    return fate.outcome, fate.callback


def is_stitched(cell: Cell) -> bool:
    """Tell whether there is a flow at all: not without a correlation id, and not of what cannot be read."""
    return cell.play.is_flow and not all(cell.play.steps[step].code for step in of_the_flow(cell))


def roots_of(cell: Cell) -> list[int]:
    """Give the steps that show how a flow began; none where no record does."""
    play = cell.play
    if 0 in cell.recorded:
        return [0]
    return [step for step in asked_at(cell) if play.steps[step].event is Event.SENT and _message(play, step).hops == 1]


def firsts_of(cell: Cell) -> list[int]:
    """Give the steps of which the first in time begins a flow whose root nobody saw: those sent on least."""
    steps, play = of_the_flow(cell), cell.play
    ranks = {step: max(_message(play, step).hops, len(_message(play, step).routing)) for step in steps}
    return [step for step in steps if ranks[step] == min(ranks.values())]


def leaves_of(cell: Cell) -> list[int]:
    """Give the steps that no recorded step of the flow follows."""
    steps = of_the_flow(cell)
    followed = {_recorded_before(cell, step) for step in steps}
    return [step for step in steps if step not in followed]


def _recorded_before(cell: Cell, step: int) -> int:
    before = cell.play.steps[step].follows
    while before != NOBODY and before not in cell.sites:
        before = cell.play.steps[before].follows
    return before


def asked_at(cell: Cell) -> list[int]:
    """Give the steps that show the first message of a flow where it began, as it was submitted or sent."""
    return [step for step in _questions(cell) if cell.play.steps[step].role == 0]


def is_question_seen(cell: Cell) -> bool:
    """Tell whether any record shows the first message of a flow as it was submitted, sent or received."""
    return bool(_questions(cell))


def _questions(cell: Cell) -> list[int]:
    play, events = cell.play, (Event.SUBMITTED, Event.SENT, Event.RECEIVED)
    return [
        step
        for step in cell.recorded
        if play.steps[step].event in events and play.images[play.steps[step].image].letter == 0
    ]


def counts_as_hop(step: Step) -> bool:
    """Tell whether a step is a transit of its own: a sending, or an arrival whose sending nobody saw."""
    return step.event is Event.SENT or step.arrival is Arrival.UNSENT


def _message(play: Play, step: int) -> Message:
    return play.images[play.steps[step].image].message
