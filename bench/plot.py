"""Draw what peers.py measured: one group of bars a figure, one bar a program.

usage: python bench/plot.py [RESULT.json]    (the newest result by default; writes RESULT.svg)

Runs in an environment with matplotlib.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parent / "results"


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Write tokens a second of every program on a logarithmic axis, a panel a model."""
    figure, panels = plt.subplots(len(results), 1, figsize=(9, 3.2 * len(results)), squeeze=False)
    for panel, result in zip(panels[:, 0], results, strict=True):
        names = list(result["medians"])
        works = list(result["medians"][names[0]])
        width = 0.8 / len(names)
        for i, name in enumerate(names):
            medians = result["medians"][name]
            at = [j + i * width for j, work in enumerate(works) if work in medians]
            panel.bar(at, [medians[work] for work in works if work in medians], width, label=name)
        panel.set_xticks([j + 0.4 - width / 2 for j in range(len(works))], works)
        panel.set_yscale("log")
        panel.set_ylabel("tokens/s")
        panel.set_title(result["model"])
        panel.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    given = sys.argv[1:] or sorted(map(str, RESULTS.glob("peers-*.json")))[-1:]
    if not given:
        sys.exit("error: nothing to draw; make bench-peers measures")
    source = Path(given[0])
    draw(json.loads(source.read_text())["models"], source.with_suffix(".svg"))
    print(f"drawn in {source.with_suffix('.svg').name}")


if __name__ == "__main__":
    main()
