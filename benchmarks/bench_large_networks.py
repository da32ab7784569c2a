"""What a simulated network of up to a thousand nodes costs, and how that grows: ``make bench-large-networks``.

The nodes and the rendezvous servers are the real ones; time and the network are simulated (`hopline.simulation`). Each
size runs in a process of its own, so that memory can be compared, and without Python's collector of cyclic garbage,
whose work grows with all nodes of the process and would be counted as work of each.

The figures are printed as tables and, with ``--write``, recorded in ``large_networks.json``, of which
``python -m tools.large_networks_charts`` makes the picture and the tables in the documentation.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hopline.simulation.large_network import Cost, LargeNetwork, measure

RECORDED = Path(__file__).parent / "large_networks.json"
SIZES = (10, 30, 100, 300, 1000)
CHANGES = {
    "form": "forming",
    "join": "one joins",
    "leave": "one leaves",
    "crash": "one crashes",
    "failover": "a server fails",
    "cut": "cut in halves",
    "ask": "one asks",
}
"""The changes by their fields, with the headings of their columns."""


def measured_in_a_process(nodes: int) -> LargeNetwork:
    """Measure a size in a new process."""
    command = [sys.executable, "-m", "benchmarks.bench_large_networks", "--size", str(nodes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own module
    return msgspec.json.decode(done.stdout, type=LargeNetwork)


def read_recorded() -> list[LargeNetwork]:
    """Return the figures of the last run that was recorded."""
    return msgspec.json.decode(RECORDED.read_bytes(), type=list[LargeNetwork])


def tables(networks: Sequence[LargeNetwork]) -> str:
    """Return the figures as tables in Markdown."""
    return "\n".join(
        [
            "Messages, for each node of the network:\n",
            _table(networks, lambda cost, nodes: f"{cost.messages / nodes:,.1f}"),
            "kB, for each node:\n",
            _table(networks, lambda cost, nodes: f"{cost.bytes / nodes / 1e3:,.1f}"),
            "Milliseconds of processor time, for each node:\n",
            _table(networks, lambda cost, nodes: f"{cost.cpu_seconds / nodes * 1e3:,.2f}"),
            "Seconds of virtual time until it is known:\n",
            _table(networks, lambda cost, _: f"{cost.seconds:,.1f}"),
            "At rest, for each node:\n",
            _rest_table(networks),
        ]
    )


def _table(networks: Sequence[LargeNetwork], cell: Callable[[Cost, int], str]) -> str:
    rows = [["nodes", *CHANGES.values()]]
    for network in networks:
        costs: list[Cost] = [getattr(network, field) for field in CHANGES]
        rows.append([f"{network.nodes:,}", *(cell(cost, network.nodes) for cost in costs)])
    return _markdown(rows)


def _rest_table(networks: Sequence[LargeNetwork]) -> str:
    rows = [["nodes", "links", "watched nodes", "heartbeats a second", "MB"]]
    for network in networks:
        rest = network.rest
        megabytes = rest.bytes_of_memory / 1e6
        rows.append(
            [
                f"{network.nodes:,}",
                f"{rest.links:.1f}",
                f"{rest.watched:.1f}",
                f"{rest.heartbeats:.1f}",
                f"{megabytes:.2f}",
            ]
        )
    return _markdown(rows)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    header, *others = rows
    lines = [header, ["---:"] * len(header), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Measure each size, smallest first, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true", help=f"record the figures in {RECORDED.name}")
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.size is not None:
        gc.disable()
        sys.stdout.buffer.write(msgspec.json.encode(measure(arguments.size)))
        return
    networks = []
    for nodes in sorted(arguments.nodes):
        print(f"simulating {nodes:,} nodes", file=sys.stderr)
        networks.append(measured_in_a_process(nodes))
    print(tables(networks))
    if arguments.write:
        recorded = msgspec.json.format(msgspec.json.encode(networks))
        RECORDED.write_bytes(recorded + b"\n")


if __name__ == "__main__":
    main()
