"""Which columns the pages read, and of which kind: tables come from anywhere.

Tables with columns that are missing or have another type get a page that names them, instead of an error from a query.
The meaning of the columns stands in ``docs/reference/tables``.
"""

from __future__ import annotations

from hopline.query.errors import QueryError
from hopline.query.tables import Tables

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_TIMES = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}
_KINDS = {
    "text": {"VARCHAR"},
    "integer": _INTEGERS,
    "time": _TIMES,
    "flag": {"BOOLEAN"},
    "frames": {"BLOB[]"},
    "stages": {
        "STRUCT(stage VARCHAR, node VARCHAR, identity VARCHAR, us BIGINT, handler VARCHAR, flow_id VARCHAR)[]",
    },
}
_STAGED = {"critical_path": "stages"}


def _columns(*, text: str = "", integer: str = "", time: str = "", flag: str = "", frames: str = "") -> dict[str, str]:
    by_kind = {"text": text, "integer": integer, "time": time, "flag": flag, "frames": frames}
    return {name: kind for kind, names in by_kind.items() for name in names.split()}


_RECORD = _columns(
    text="node node_uri event peer local_receiver receiver_name handler reason segment",
    integer="seq cause duration_us dropped",
    time="ts",
)

COLUMNS: dict[str, dict[str, str]] = {
    "messages": _RECORD
    | _columns(
        text="flow_id wire_format identity version partition correlation_id receiver receiver_node domain verdict",
        integer="hops ttl_us callback_key body_bytes bytes frame_count message_id",
        frames="bodies",
    ),
    "rejects": _RECORD | _columns(text="code detail", integer="frame_index", frames="frames"),
    "hops": _columns(
        text="from_node to_node flow_id identity wire_format",
        integer="message_id hops bytes sent_seq received_seq transit_us skew_us skew_bound_us",
        time="sent_ts received_ts",
        flag="lost duplicate rejected",
    ),
    "callbacks": _columns(
        text="flow_id asked_node asked_receiver identity answer_identity answered_by outcome",
        integer="callback_key ttl_us attempt latency_us",
        time="asked_ts answered_ts",
        flag="asked_again",
    ),
    "flows": _columns(
        text="flow_id origin identity outcome parent_flow_id journey_id",
        integer="duration_us messages records hops nodes bytes depth skew_us skew_bound_us",
        time="start_ts end_ts",
        flag="provisional",
    )
    | _STAGED,
    "journeys": _columns(
        text="journey_id origin identity outcome outcome_flow_id",
        integer="duration_us flows depth messages hops nodes bytes skew_us skew_bound_us",
        time="start_ts end_ts",
        flag="provisional",
    )
    | _STAGED,
    "handlers": _columns(
        text="node actor actor_name handler identity",
        integer="window_s count errors wait_p50_us wait_p95_us wait_p99_us run_p50_us run_p95_us run_p99_us",
        time="window_start",
        flag="provisional",
    ),
    "edges": _columns(
        text="kind source_node source source_name target_node target target_name identity",
        integer="window_s count bytes errors lost transit_p50_us transit_p95_us transit_p99_us",
        time="window_start",
        flag="provisional",
    ),
    "security": _columns(text="domain node peer", time="window_start"),
    "incidents": _columns(text="node peer offence domain flow_id identity", integer="seq", time="ts"),
    "skew": _columns(
        text="node_a node_b",
        integer="offset_us bound_us min_transit_ab_us min_transit_ba_us transits_ab transits_ba",
        flag="provisional",
    ),
    "audit": _columns(
        text="node",
        integer="records dropped missing rejects submitted received sent delivered handled resolved expired unroutable "
        "rejected overflow hop_limit failed copies balance",
        time="hour",
        flag="balanced provisional",
    ),
    "late": _columns(
        text="node event peer flow_id identity version partition segment missed",
        integer="seq",
        time="ts",
    ),
}


class ContractError(QueryError):
    """A table has not the columns that the pages read."""


def check(tables: Tables, name: str) -> None:
    """Raise ContractError unless a table has the columns that the pages read, each of its kind."""
    types = tables.columns(name)
    problems = []
    for column, kind in COLUMNS[name].items():
        actual = types.get(column, "").replace('"', "")
        if not actual:
            problems.append(f"no column {column}")
        elif actual not in _KINDS[kind]:
            problems.append(f"{column} is {actual}, expected {' or '.join(sorted(_KINDS[kind]))}")
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise ContractError(f"the table {name} is not as hopline pipeline run writes it: {shown}")
