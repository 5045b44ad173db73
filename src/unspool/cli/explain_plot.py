"""A picture of one token: its candidates through the stages. Needs matplotlib (extra `plot`)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unspool.cli.explain_table import percent, quoted
from unspool.errors import BadRequest
from unspool.extras import missing
from unspool.light_dataclass import dataclass
from unspool.whole_file import folder_problem

if TYPE_CHECKING:
    from unspool.trace import TokenTrace

FORMATS: Final = (".png", ".svg")


@dataclass(frozen=True, slots=True)
class Curve:
    """One candidate, as long as it is alive."""

    label: str
    probs: tuple[float, ...]  # before the first stage, and after each that it survived
    removed_by: str | None
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn."""

    title: str
    steps: tuple[str, ...]  # along the x axis: the model, then each stage
    curves: tuple[Curve, ...]  # likeliest at first first


def picture_of(number: int, trace: TokenTrace) -> Picture:
    """The picture of the answer's token `number`."""
    curves = []
    for path in trace.candidates:
        removed_by = trace.removed_by(path.token_id)
        names = [stage.stage for stage in trace.stages]
        n_alive = len(path.probs) if removed_by is None else 1 + names.index(removed_by)
        fate = percent(path.prob_final) if removed_by is None else f"cut by {removed_by}"
        label = f"{quoted(path.text)} {percent(path.prob)} → {fate}"
        is_chosen = path.token_id == trace.chosen.token_id
        curves.append(Curve(label, path.probs[:n_alive], removed_by, is_chosen))
    title = (
        f"token {number}: {quoted(trace.chosen.text)}, {trace.n_candidates} candidates → {trace.n_survivors}"
    )
    return Picture(title, ("model", *(stage.stage for stage in trace.stages)), tuple(curves))


def check_plot(file: str) -> Path:
    """The path of a picture that can be drawn, before anything is loaded. Raises BadRequest."""
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise BadRequest(f"--plot must name a {' or '.join(FORMATS)} file, got {file!r}", code="bad_plot")
    if problem := folder_problem(path):
        raise BadRequest(f"--plot {file}: {problem}; make it, or name another", code="bad_plot")
    _figure_class()
    return path


def draw(picture: Picture, path: Path) -> None:
    """Write the picture. Probabilities stand on a logarithmic axis; a cross is where a candidate was cut."""
    figure = _figure_class()(figsize=(max(7, 4 + 1.1 * len(picture.steps)), 6), layout="constrained")
    axes = figure.subplots()
    for curve in picture.curves:
        axes.plot(
            range(len(curve.probs)),
            curve.probs,
            label=curve.label.replace("$", r"\$"),  # no formula begins here
            marker="o",
            markersize=4,
            linewidth=3 if curve.is_chosen else 1,
            zorder=3 if curve.is_chosen else 2,
        )
        if curve.removed_by is not None:
            color = axes.lines[-1].get_color()
            axes.plot(len(curve.probs) - 1, curve.probs[-1], marker="x", markersize=10, color=color)
    axes.set_yscale("log")
    axes.set_ylabel("probability")
    axes.set_xticks(range(len(picture.steps)), picture.steps, rotation=30, ha="right")
    axes.set_title(picture.title.replace("$", r"\$"))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", frameon=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # no font has every character of a vocabulary
        figure.savefig(path, dpi=150)


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise BadRequest(
            f"--plot {missing('plot')}",
            code="missing_extra",
        ) from None
    return Figure
