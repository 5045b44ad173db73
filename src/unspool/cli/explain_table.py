"""A trace as lines that a person reads: one a token, and below it, where asked, one a stage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from unspool.trace import StageTrace, TokenTrace

_N_FINAL: Final = 5  # of the last survivors, how many are listed
_N_MOVED: Final = 3

# What stands in a line: heading and width; numbers stand at the right of their column.
_TOKEN_COLUMNS: Final = (
    ("#", 4), ("token", -20), ("raw p", 10), ("final p", 10), ("candidates", 16), ("entropy, bits", 15),
    ("what cut most", -1),
)  # fmt: skip
_STAGE_COLUMNS: Final = (
    ("", 4), ("stage", -20), ("mass cut", 10), ("T", 10), ("candidates", 16), ("entropy, bits", 15), ("", -1)
)  # fmt: skip


class TraceTable:
    """Prints to standard output: in colour on a terminal (unless NO_COLOR is set), plain into a pipe."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console: Console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        self._has_head = False

    def add(self, number: int, trace: TokenTrace, *, expanded: bool) -> None:
        """The line of the answer's token `number`, and its stages when it is expanded."""
        if not self._has_head:
            self._print(line(_TOKEN_COLUMNS, [heading for heading, _ in _TOKEN_COLUMNS], ["dim"] * 7))
            self._has_head = True
        cells = [
            str(number),
            quoted(trace.chosen.text),
            percent(trace.chosen.prob),
            percent(trace.chosen.prob_final),
            _change(trace.n_candidates, trace.n_survivors),
            _entropy(trace.entropy_bits, trace.entropy_final_bits),
            _what_cut_most(trace),
        ]
        shade = _shade(trace.chosen.prob), _shade(trace.chosen.prob_final)
        self._print(line(_TOKEN_COLUMNS, cells, ["dim", "bold", *shade, "", "", "red"]))
        if expanded:
            self._add_stages(trace)

    def _add_stages(self, trace: TokenTrace) -> None:
        if trace.stages:
            self._print(line(_STAGE_COLUMNS, [heading for heading, _ in _STAGE_COLUMNS], ["dim"] * 7))
        for stage in trace.stages:
            cells = [
                "",
                stage.stage,
                percent(stage.removed_mass) if stage.n_removed else "",
                "" if stage.temperature is None else f"{stage.temperature:.4g}",
                _change(stage.n_before, stage.n_after),
                _entropy(stage.entropy_before_bits, stage.entropy_after_bits),
                "",
            ]
            self._print(line(_STAGE_COLUMNS, cells, ["", "cyan", "red", "yellow", "", "", ""]))
            if stage.removed:
                self._detail("cut", _removed(stage), "red")
            if stage.moved:
                self._detail("moved", _moved(stage), "magenta")
        last = sorted(trace.candidates, key=lambda path: (-path.prob_final, path.token_id))[:_N_FINAL]
        left = [f"{quoted(path.text)} {percent(path.prob_final)}" for path in last if path.prob_final > 0]
        self._detail("left", _listed(left, trace.n_survivors), "green")
        if not trace.matches:
            self._detail("note", "one at the very edge of a cut survived here or in the engine alone", "bold")
        self._print(line((("", 1),), [""], [""]))

    def _detail(self, word: str, text: str, style: str) -> None:
        self._print(line((("", 4), ("", -6), ("", -1)), ["", word, text], ["", style, ""]))

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)


def percent(prob: float) -> str:
    """A probability to three digits."""
    return f"{100 * prob:.3g} %"


def quoted(text: str) -> str:
    """A token between quotes; what cannot be printed, or would drive the terminal, is spelled out."""
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f'"{"".join(shown)}"'


def line(columns: Sequence[tuple[str, int]], cells: Sequence[str], styles: Sequence[str]) -> Text:
    """Cells in columns; a negative width stands at the left, and what is too long for it is cut with an
    ellipsis. A width of -1 takes what is left of the line."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    line = Text()
    for (_, width), cell, style in zip(columns, cells, styles, strict=True):
        if width == -1:
            line.append(cell, style)
        elif width > 0:
            line.append(cell.rjust(width), style)
        else:
            fits = cell_len(cell) <= -width
            line.append(cell if fits else set_cell_size(cell, -width - 1) + "…", style)
            line.append(" " * (-width - cell_len(cell) if fits else 0))
        line.append("  ")
    line.rstrip()
    return line


def _shade(prob: float) -> str:
    return "green" if prob >= 0.5 else "yellow" if prob >= 0.1 else "red"


def _change(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} → {after}"


def _entropy(before: float, after: float) -> str:
    shown = f"{before:.2f}", f"{after:.2f}"
    return shown[0] if shown[0] == shown[1] else f"{shown[0]} → {shown[1]}"


def _what_cut_most(trace: TokenTrace) -> str:
    cuts = [stage for stage in trace.stages if stage.n_removed]
    if not cuts:
        return "nothing"
    most = max(cuts, key=lambda stage: stage.removed_mass)
    return f"{most.stage} {percent(most.removed_mass)}"


def _removed(stage: StageTrace) -> str:
    return _listed([f"{quoted(r.text)} {percent(r.prob)}" for r in stage.removed], stage.n_removed)


def _moved(stage: StageTrace) -> str:
    return ", ".join(
        f"{quoted(m.text)} {percent(m.prob_before)} → {percent(m.prob_after)} (logit {m.logit_change:+.3g})"
        for m in stage.moved[:_N_MOVED]
    )


def _listed(shown: Sequence[str], n_all: int) -> str:
    rest = f", and {n_all - len(shown)} more" if n_all > len(shown) else ""
    return ", ".join(shown) + rest
