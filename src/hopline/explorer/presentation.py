"""How values become text on a page: Jinja with autoescape, and filters that make foreign text harmless.

Values of tables are untrusted: names and bodies come off the wire. Jinja always escapes HTML in them. What a browser
would interpret nevertheless (bidirectional controls, line breaks, invisible characters) is written as escapes by
`hopline.message.printable`, and long values are cut.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from hopline.explorer.addresses import address
from hopline.message import LONGEST_NAME, printable
from hopline.pipeline.tables.findings import duration, number, short

CELL_CHARACTERS = 160
_NODES = {"node", "peer", "origin", "from_node", "to_node", "answered_by", "node_a", "node_b", "asked_node"}
NODE_COLUMNS = frozenset(_NODES | {"source_node", "target_node", "receiver_node", "callback_receiver_node"})
FLOW_COLUMNS = frozenset({"flow_id", "journey_id", "parent_flow_id", "outcome_flow_id", "correlation_id"})
OUTCOME_COLUMNS = frozenset({"outcome", "offence"})
_TIME_FORMS = {
    "full": "%Y-%m-%d %H:%M:%S.%f",
    "second": "%Y-%m-%d %H:%M:%S",
    "clock": "%H:%M:%S.%f",
}
_LISTED_VALUES = 4
_ID_END = 4
_KINDS = "\0\1"  # the first byte of the identity of a hub or an actor


@cache
def environment() -> Environment:
    """Return the templates with their filters; they are compiled once."""
    jinja = Environment(
        loader=PackageLoader("hopline.explorer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {
        "bytes_text": bytes_text,
        "cell": cell,
        "cut": cut,
        "flow_id": short_flow_id,
        "duration": duration,
        "name": name,
        "number": whole,
        "short": short_name,
        "share": share,
        "text": text,
        "time": time,
        "words": words,
    }
    jinja.globals["address"] = address
    return jinja


def text(value: Any, limit: int | None = None) -> str:
    """Return any text as one line without anything that a browser or a terminal obeys."""
    if value is None:
        return ""
    return printable(str(value), limit or 4_000)


def cut(value: Any, characters: int) -> str:
    """Return any text as one line of at most so many characters, with an ellipsis where it was longer."""
    if value is None:
        return ""
    beginning = str(value)[: characters + 1]
    shown = printable(beginning, None)
    if len(shown) <= characters:
        return shown
    return f"{shown[: characters - 1]}…"


def name(value: str | None) -> str:
    """Return the whole name of a node, an actor, a hub or a flow, without the byte for its kind."""
    if value is None:
        return ""
    without_kind = str(value).lstrip(_KINDS)
    return printable(without_kind, LONGEST_NAME)


def short_name(value: str | None) -> str:
    """Return enough of a name to tell it from others: the beginning of a GUID, any other name in full."""
    if value is None:
        return ""
    return printable(short(str(value)), 60)


def short_flow_id(value: str | None) -> str:
    """Return enough of a flow's id to tell it from others: the ids that one hub gives differ only at their ends."""
    beginning = short_name(value)
    whole_id = name(value)
    if beginning == whole_id:
        return beginning
    end = whole_id[-_ID_END:]
    return f"{beginning}…{end}"


def whole(value: Any) -> str:
    """Return a number with commas; nothing where there is none."""
    return "" if value is None else number(int(value))


def share(part: float | None, of: float | None) -> str:
    """Return a part as a percentage; nothing where there is no whole."""
    if not of or part is None:
        return ""
    percent = 100 * part / of
    has_fraction = percent % 1 != 0
    if percent < 10 or has_fraction:
        return f"{percent:.1f}%"
    return f"{percent:.0f}%"


def time(moment: datetime | None, form: str = "full") -> str:
    """Return a time in UTC: `full`, `second` or `clock`, which has no day."""
    if moment is None:
        return ""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.strftime(_TIME_FORMS[form])


def bytes_text(count: int | None) -> str:
    """Return a number of bytes in the largest unit that fits."""
    if count is None:
        return ""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.3g} {unit}"
        size /= 1_000
    return f"{size:,.3g} TB"


def words(column: str) -> str:
    """Return the name of a column as words: ``run_p99_us`` is "run p99"."""
    return re.sub(r"_(us|id|ts|s)$", "", column).replace("_", " ")


def cell(value: Any, column: str) -> str:
    """Return any value of a table as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return time(value)
    if isinstance(value, date):
        return str(value)
    if isinstance(value, int):
        return _integer_text(value, column)
    if isinstance(value, float):
        return f"{value:,.3g}"
    if isinstance(value, bytes):
        return printable(value.hex(), CELL_CHARACTERS)
    if isinstance(value, list):
        return _list_text(value, column)
    if isinstance(value, dict):
        parts = [cell(item, key) for key, item in value.items() if item not in (None, "")]
        return " ".join(parts)
    without_kind = str(value).lstrip(_KINDS)
    return printable(without_kind, CELL_CHARACTERS)


def _integer_text(value: int, column: str) -> str:
    if column.endswith("_us"):
        return duration(value)
    if column.endswith("_id"):
        return str(value)
    return f"{value:,}"


def _list_text(values: list[Any], column: str) -> str:
    texts = [cell(value, column) for value in values[:_LISTED_VALUES]]
    shown = ", ".join(texts)
    if len(values) <= _LISTED_VALUES:
        return shown
    return f"{shown}, … ({len(values):,})"
