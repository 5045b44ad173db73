"""A table on a terminal, the same words in aligned columns for a pipe, where nothing is cut off."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO


def print_table(rows: Sequence[tuple[str, ...]], file: TextIO | None = None) -> None:
    """Print rows, to standard output when no file is given; a first row in capitals is the head."""
    file = sys.stdout if file is None else file
    if file.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table

        has_head = rows[0][0].isupper()
        table = Table(box=box.SIMPLE, show_header=has_head, pad_edge=False)
        for index, head in enumerate(rows[0]):
            table.add_column(head if has_head else "", overflow="fold", style="bold" if index == 0 else "")
        for row in rows[has_head:]:
            table.add_row(*row)
        Console(file=file, markup=False, highlight=False).print(table)
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=file
        )
