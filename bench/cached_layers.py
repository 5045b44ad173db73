"""What a step would take if the weights of its layers cost no memory traffic.

usage: python bench/cached_layers.py [--model NAME] [--rows N ...] [--context N] [--rounds N] [--threads N]

Beside the model itself stands one whose layers all use the weights of the first: the same arithmetic, but
these weights stay in the processor's caches. (Embedding, output, keys and values are read as ever.) Steps of
both take turns within one process. Where the second is not much faster, a step is bound by arithmetic, and no
better way of reading memory would help it.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np

from figures import print_table, save, this_machine, warn_if_busy
from sequences import Sequences
from unspool.kv.layout import pages_for
from unspool.models.architectures import build_graph
from unspool.models.catalogue import resolve
from unspool.models.config import read_config
from unspool.models.graph import Graph, Linear, RmsNorm
from unspool.models.weights import open_weights
from unspool.runners.native import NativeRunner

PAGE_SIZE = 32
STEPS = 10  # of each kind in a row; their median counts


def with_one_layer_s_weights(graph: Graph) -> Graph:
    """The network with the weights of layer 0 in every layer."""

    def first(name: str) -> str:
        return re.sub(r"^blk\.\d+\.", "blk.0.", name)

    ops = []
    for op in graph.ops:
        if isinstance(op, Linear):
            bias = None if op.bias is None else first(op.bias)
            op = replace(op, weight=first(op.weight), bias=bias)
        elif isinstance(op, RmsNorm):
            op = replace(op, weight=first(op.weight))
        ops.append(op)
    return replace(graph, ops=tuple(ops))


class Steps:
    """Steps of n rows, each of a sequence with `context` tokens."""

    def __init__(self, graph: Graph, source: Any, n: int, context: int, n_threads: int) -> None:
        n_pages = n * pages_for(context + 1, PAGE_SIZE)
        runner = NativeRunner(graph, source, n_pages=n_pages, page_size=PAGE_SIZE, n_threads=n_threads)
        self.sequences = Sequences(runner, n, context + 1)
        tokens = np.random.default_rng(0).integers(0, graph.vocab_size, (n, context + 1)).tolist()
        self.sequences.extend([row[:-1] for row in tokens])
        self.context = context
        self.last = [row[-1:] for row in tokens]

    def ms(self) -> float:
        """The median of some steps, one behind the other."""
        times = []
        for _ in range(STEPS):
            start = time.perf_counter()
            self.sequences.extend(self.last)
            times.append(1000 * (time.perf_counter() - start))
            self.sequences.rewind(self.context)
        return statistics.median(times)


def measure(
    model: str, rows: list[int], context: int, rounds: int, n_threads: int
) -> dict[str, dict[int, list[float]]]:
    """Milliseconds of steps of so many rows by round, "from memory" and "in the cache"."""
    with open_weights(resolve(model)) as source:
        graph = build_graph(read_config(source), source)
        networks = {"from memory": graph, "in the cache": with_one_layer_s_weights(graph)}
        steps = {
            (name, n): Steps(network, source, n, context, n_threads)
            for name, network in networks.items()
            for n in rows
        }
        times: dict[str, dict[int, list[float]]] = {name: {n: [] for n in rows} for name in networks}
        for _ in range(rounds):
            for (name, n), step in steps.items():
                times[name][n].append(step.ms())
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="smollm2-135m", help="default %(default)s")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8], help="default %(default)s")
    parser.add_argument("--context", type=int, default=64, help="tokens behind each row, default %(default)s")
    parser.add_argument("--rounds", type=int, default=30, help="default %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="default %(default)s")
    arguments = parser.parse_args()
    machine = this_machine()
    warn_if_busy()
    times = measure(arguments.model, arguments.rows, arguments.context, arguments.rounds, arguments.threads)
    one = times["from memory"][arguments.rows[0]]
    table = []
    for n in arguments.rows:
        row = [f"step of {n}"]
        for by_rows in times.values():
            over = statistics.median(ms / base for ms, base in zip(by_rows[n], one, strict=True))
            row += [f"{statistics.median(by_rows[n]):.2f} ms", f"{over:.2f}"]
        table.append(row)
    ratio = f"over {arguments.rows[0]} from memory"
    print(f"\n{arguments.model}, {arguments.threads} threads, weights of the layers\n")
    print_table(["", "from memory", ratio, "in the cache", ratio], table)
    save("cached_layers", machine, {"arguments": vars(arguments), "times_ms": times})


if __name__ == "__main__":
    main()
