"""`unspool bench`: how fast a model runs here, and where the time of a step goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspool.cli import amounts
from unspool.cli.json_out import write_json
from unspool.cli.options import Model, Threads
from unspool.cli.table import print_table
from unspool.models.catalogue import DEFAULT_MODEL

if TYPE_CHECKING:
    from unspool.breakdown import Breakdown, PassTime


def bench(
    model: Model = DEFAULT_MODEL,
    rows: Annotated[
        str, typer.Option(metavar="N,N", help="Decode so many sequences at once; each number is measured.")
    ] = "1,8",
    prompt: Annotated[
        str, typer.Option(metavar="N", help="Read a prompt of so many tokens; 0: none.")
    ] = "256",
    context: Annotated[
        str, typer.Option(metavar="N", help="Tokens behind each sequence that decodes.")
    ] = "64",
    rounds: Annotated[str, typer.Option(metavar="N", help="Passes of each kind; the median counts.")] = "20",
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time a model's forward passes, instruction by instruction.

    Bandwidth and multiply-adds stand beside what this machine does at most, measured in the same run. Run
    nothing else meanwhile. UNSPOOL_PROFILE=1 before any command writes a timeline of its steps instead.
    """
    from unspool.breakdown import RANGES, measure
    from unspool.cli.load import found_model

    def number(name: str, text: str) -> int:
        return amounts.whole(f"--{name}", text, *RANGES[name])

    asked: dict[str, Any] = {  # all of it is read before a model is fetched
        "threads": amounts.threads(threads),
        "rows": [number("rows", part) for part in rows.split(",")] if rows.strip() else [],
        "prompt": number("prompt", prompt),
        "context": number("context", context),
        "rounds": number("rounds", rounds),
    }
    result = measure(found_model(model, quiet=as_json), **asked)
    if as_json:
        write_json({"model": model, **result.to_dict()}, indent=2)
        return
    _print(model, result)


def _print(model: str, result: Breakdown) -> None:
    from unspool.sizes import shown

    print(f"{model}: {shown(result.weight_bytes)} of weights, {result.isa}, {result.n_threads} threads")
    print(
        f"this machine at most: {result.read_gb_per_s:.1f} GB/s read, "
        f"{result.integer_gmac_per_s:.0f} G multiply-adds/s"
    )
    for each in result.passes:
        print(
            f"\n{each.name}: {each.ms:.2f} ms, {each.tokens_per_s:.1f} tok/s, {each.of_bandwidth:.0%} of the "
            f"bandwidth, {each.of_integers:.0%} of the integer units"
        )
        print_table(_rows(each))
    for doubt in result.doubts:
        print(f"\nnote: {doubt}")


def _rows(each: PassTime) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("OF A STEP", "MS", "SHARE", "GB/S", "GMAC/S")]
    for kind in sorted(each.kinds, key=lambda kind: -kind.ms):
        rates = ("" if rate is None else f"{rate:.1f}" for rate in (kind.gb_per_s, kind.gmac_per_s))
        rows.append((kind.kind, f"{kind.ms:.3f}", f"{kind.share:.1%}", *rates))
    return rows
