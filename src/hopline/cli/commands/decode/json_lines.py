"""A decoded message as one line of JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from hopline.cli.terminal import json_line
from hopline.display.bodies import plain
from hopline.wire import Annotation, Reading, RemoteError


def annotation_json(label: str, annotation: Annotation) -> str:
    """Return an annotated message as one line of JSON, with bytes in hex."""
    message = annotation.message
    document = {
        "label": label.encode("utf-8", "backslashreplace").decode(),
        "wire_format": annotation.layout.wire_format.value if annotation.layout else None,
        "layout": annotation.layout.name if annotation.layout else None,
        "frames": [frame.hex() for frame in annotation.frames],
        "readings": [_reading(reading) for reading in annotation.readings],
        "message": plain(msgspec.structs.asdict(message)) if message else None,
        "fault": _fault(annotation.fault) if annotation.fault else None,
    }
    return json_line(document)


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "position": reading.position,
        "offset": reading.offset,
        "name": reading.name,
        "raw": reading.raw.hex(),
        "value": plain(reading.value),
        "selector": reading.row.selector,
        "meaning": reading.row.meaning,
    }


def _fault(fault: RemoteError) -> dict[str, Any]:
    return {
        "reason": fault.reason.value,
        "field": fault.field,
        "position": fault.position,
        "offset": fault.offset,
        "expected": fault.expected,
        "found": plain(fault.found),
    }
