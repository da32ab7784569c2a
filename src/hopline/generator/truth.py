"""The truth about a generated capture, derived from what was planted: nothing here decodes or matches records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hopline.generator.compiled_scenarios import CompiledScenarios
from hopline.generator.flow_batch import FlowBatch
from hopline.generator.node_logs import LogPart
from hopline.generator.topology import Topology
from hopline.generator.truth_flows import FlowTruth
from hopline.generator.truth_records import RecordTruth
from hopline.generator.truth_tables import TruthTableFiles


class GroundTruth:
    """Collects and writes all tables of the truth. Rows are written as they come, counts at the end."""

    def __init__(
        self,
        directory: Path,
        compiled: CompiledScenarios,
        topology: Topology,
        seed: int,
        start: int,
    ) -> None:
        self._tables = TruthTableFiles(directory)
        self._topology = topology
        self._flows = FlowTruth(self._tables, topology, start)
        self._records = RecordTruth(self._tables, compiled, topology, seed)

    @property
    def records(self) -> int:
        """The number of records so far."""
        return self._records.totals["records"]

    def add(self, batches: Iterable[FlowBatch], parts: Iterable[LogPart]) -> None:
        """Add the flows of one period, and the records that were numbered in it."""
        for batch in batches:
            self._flows.add(batch)
        for part in parts:
            self._records.add(part)
        self._tables.flush()

    def close(self) -> dict[str, int]:
        """Write what was counted, and close the files.

        Returns:
            Counts by name: records, dropped records, rejects, every fault as ``fault.NAME``, and the rows by table.
        """
        self._records.write_totals()
        self._flows.write_totals()
        self._write_skew()
        self._tables.close()
        return {**self._records.totals, **self._tables.rows}

    def _write_skew(self) -> None:
        for node, name in enumerate(self._topology.names()):
            uri = self._topology.uris[node].tobytes()
            self._tables.add(
                "skew",
                1,
                node=name,
                uri=uri.decode(),
                offset_us=int(self._topology.skews[node]),
                captured=node < self._topology.captured,
            )
