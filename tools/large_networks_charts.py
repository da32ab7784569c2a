"""Draw what changes cost as a network grows: ``python -m tools.large_networks_charts``.

Writes docs/images/large-networks.svg, and the tables in docs/explanation/large-networks.md, of the figures that
``python -m benchmarks.bench_large_networks --write`` recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from benchmarks.bench_large_networks import CHANGES, read_recorded, tables

from hopline.simulation.large_network import Cost, LargeNetwork

DOCS = Path(__file__).parent.parent / "docs"
PICTURE = DOCS / "images" / "large-networks.svg"
PAGE = DOCS / "explanation" / "large-networks.md"
BEGIN, END = "<!-- begin of the tables -->\n", "<!-- end of the tables -->\n"
WIDTH, HEIGHT = 330, 260
LEAST = 0.1  # on a logarithmic scale, which has no zero


def points(networks: Sequence[LargeNetwork]) -> list[dict[str, Any]]:
    """Return a point for each change and size."""
    found = []
    for network in networks:
        for field, change in CHANGES.items():
            cost: Cost = getattr(network, field)
            found.append(
                {
                    "nodes": network.nodes,
                    "change": change,
                    "messages": max(LEAST, cost.messages / network.nodes),
                    "kilobytes": max(LEAST, cost.bytes / network.nodes / 1e3),
                }
            )
    return found


def chart(networks: Sequence[LargeNetwork]) -> alt.HConcatChart:
    """Return the chart: messages and bytes for each node, by the number of nodes, one line for each change."""
    sizes = [network.nodes for network in networks]
    nodes = alt.X("nodes:Q", title="nodes", scale=alt.Scale(type="log"), axis=alt.Axis(values=sizes))
    colour = alt.Color("change:N", title=None, sort=list(CHANGES.values()))
    base = alt.Chart(alt.InlineData(points(networks))).mark_line(point=True)
    parts = []
    for field, title in (("messages", "messages, for each node"), ("kilobytes", "kB, for each node")):
        cost = alt.Y(f"{field}:Q", title=title, scale=alt.Scale(type="log"))
        part = base.encode(x=nodes, y=cost, color=colour).properties(width=WIDTH, height=HEIGHT)
        parts.append(part)
    both: alt.HConcatChart = alt.hconcat(*parts).configure(background="white", font="sans-serif")
    return both


def picture(networks: Sequence[LargeNetwork]) -> str:
    """Return the chart as SVG."""
    return vl_convert.vegalite_to_svg(chart(networks).to_json())


def page_with_tables(page: str, networks: Sequence[LargeNetwork]) -> str:
    """Return the page with the tables of these networks in place of those that it has."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{tables(networks)}\n{END}{after}"


def main() -> None:
    """Write the picture and the tables."""
    networks = read_recorded()
    PICTURE.write_text(picture(networks) + "\n")
    PAGE.write_text(page_with_tables(PAGE.read_text(), networks))
    print(f"wrote {PICTURE} and {PAGE}")


if __name__ == "__main__":
    main()
