"""A table that loses nothing on a narrow terminal.

Rich truncates or folds the cells of a table that is too wide, which makes identities and addresses unreadable. A
`RecordTable` is drawn in the first of these ways that fits without folding a cell:

1. A table with every column.
2. A table in which generated identities are shortened, and columns that are empty or zero in every row are left out.
   Names that a user chose stay whole.
3. Blocks: the first cell of a row on a line of its own, and below it the other cells as ``name value`` pairs, as many
   to a line as fit. A longer pair is broken, see `hopline.cli.wrapping`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hopline.cli.identifiers import shorten_identity
from hopline.cli.wrapping import wrap

_UNLIMITED_WIDTH = 100_000
_INDENT = "  "
_SEPARATOR = "   "  # between the pairs of a block; wider than the space inside a pair
_NOTHING = ("", "0")

Row = tuple[str, ...]


class RecordTable:
    """Rows of text under column names.

    A row whose first cell is empty belongs to the row above it. A column may have an empty name: its cells are then
    shown alone.
    """

    def __init__(self, *columns: str, right: Collection[str] = ()) -> None:
        self._columns = columns
        self._right = right
        self._rows: list[Row] = []

    def add_row(self, *cells: str) -> None:
        """Append a row; missing cells at its end are empty."""
        missing = len(self._columns) - len(cells)
        empty = [""] * missing
        self._rows.append((*cells, *empty))

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        unlimited = options.update(max_width=_UNLIMITED_WIDTH)
        for table in (self._full_table(), self._compact_table()):
            width = Measurement.get(console, unlimited, table).maximum
            if width <= options.max_width:
                yield table
                return
        for row in self._rows:
            yield from self._block(row, options.max_width)

    def _full_table(self) -> Table:
        return self._table(self._columns, self._rows)

    def _compact_table(self) -> Table:
        others = range(1, len(self._columns))
        filled = [index for index in others if not self._is_empty(index)]
        kept = [0, *filled]
        names = [self._columns[index] for index in kept]
        rows = []
        for row in self._rows:
            cells = [shorten_identity(row[index]) for index in kept]
            rows.append(tuple(cells))
        return self._table(names, rows)

    def _is_empty(self, column: int) -> bool:
        return all(row[column] in _NOTHING for row in self._rows)

    def _table(self, columns: Sequence[str], rows: Sequence[Row]) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(
                Text(name),
                justify="right" if name in self._right else "left",
                no_wrap=True,
            )
        for row in rows:
            table.add_row(*map(Text, row))
        return table

    def _block(self, row: Row, width: int) -> Iterator[RenderableType]:
        title, *cells = row
        if title:
            yield Text("\n".join(wrap(title, width)), style="bold")
        names = self._columns[1:]
        pairs = []
        for name, cell in zip(names, cells, strict=True):
            if cell:
                pair = f"{name} {cell}"
                pairs.append(pair.strip())
        for line in _join(pairs, width - len(_INDENT)):
            yield Text("\n".join(wrap(f"{_INDENT}{line}", width, hanging=2 * _INDENT)))


def _join(pairs: list[str], width: int) -> Iterator[str]:
    """Join pairs to lines of at most this width; a longer pair gets a line of its own."""
    line = ""
    for pair in pairs:
        joined = f"{line}{_SEPARATOR}{pair}" if line else pair
        if line and cell_len(joined) > width:
            yield line
            line = pair
        else:
            line = joined
    if line:
        yield line
