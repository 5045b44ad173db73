"""Sequences that share pages are attended to together; their rows have the bits of sequences with copies."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from random_plans import Part, make_plan, pages_for
from runners_under_test import RUNNERS
from tiny_models import TinySpec, tiny_source

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.runners.base import Runner
from unspool.runners.native import NativeRunner
from unspool.runners.reference import ReferenceRunner

# Contexts of several segments of 128 tokens; windows that end inside what is shared, before and after it.
SPECS = (
    dataclasses.replace(TinySpec(), context_length=1024),
    dataclasses.replace(TinySpec("qwen2", n_heads=6, n_kv_heads=1), context_length=1024),
    dataclasses.replace(TinySpec("gemma2", window=150), context_length=1024),
    dataclasses.replace(TinySpec("gemma3", n_layers=6, window=300, head_dim=32), context_length=1024),
)
N_PAGES = 640
MOST_ROWS = 20


@dataclass(frozen=True)
class Tree:
    """Texts that fork from each other: what each has in common with an earlier one lies on its pages."""

    texts: list[list[int]]
    shared: list[list[int]]  # pages of each text, common ones in several
    copies: list[list[int]]  # the same values on pages of its own


def random_tree(rng: np.random.Generator, n: int, vocab_size: int, page_size: int, longest: int) -> Tree:
    texts: list[list[int]] = []
    shared: list[list[int]] = []
    free = iter(rng.permutation(N_PAGES).tolist())
    for b in range(n):
        parent = int(rng.integers(0, b)) if b else 0
        n_common = int(rng.integers(0, len(texts[parent]) + 1)) if b and rng.random() < 0.85 else 0
        common = texts[parent][:n_common] if b else []
        length = int(rng.integers(max(1, n_common), longest + 1))
        texts.append(common + rng.integers(0, vocab_size, length - n_common).tolist())
        whole = n_common // page_size  # the page in which the texts part is its own
        pages = shared[parent][:whole] if b else []
        shared.append(pages + [next(free) for _ in range(pages_for(length + MOST_ROWS, page_size) - whole)])
    copies = [[next(free) for _ in pages] for pages in shared]
    return Tree(texts, shared, copies)


def fill(runner: Runner, tree: Tree) -> None:
    """Read each text on its copies, and copy what it has to its other pages."""
    for text, copies, shared in zip(tree.texts, tree.copies, tree.shared, strict=True):
        runner.forward(make_plan([Part(text, 0, copies)], []))
        for source, target in zip(copies, shared, strict=True):
            runner.copy_page(source, target)


def check(runner: Runner, tree: Tree, rng: np.random.Generator, most_rows: int) -> None:
    """Continue all texts at once on pages in common, and each for itself on its copies."""
    fill(runner, tree)
    next_tokens = [
        rng.integers(0, runner.vocab_size, int(rng.integers(1, most_rows + 1))).tolist() for _ in tree.texts
    ]
    parts = list(zip(next_tokens, map(len, tree.texts), strict=True))
    alone = [
        runner.forward(make_plan([Part(tokens, n_past, pages)]))
        for (tokens, n_past), pages in zip(parts, tree.copies, strict=True)
    ]
    order = rng.permutation(len(parts)).tolist()
    together = make_plan([Part(*parts[b], tree.shared[b]) for b in order])
    assert np.array_equal(runner.forward(together), np.concatenate([alone[b] for b in order]))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.label)
@pytest.mark.parametrize("make_runner", [RUNNERS[name] for name in RUNNERS], ids=list(RUNNERS))
def test_rows_on_shared_pages_have_the_bits_of_rows_on_copies(make_runner, spec):
    runner = make_runner(tiny_source(spec), n_pages=N_PAGES, page_size=16)
    for seed in range(1 if isinstance(runner, ReferenceRunner) else 3):
        rng = np.random.default_rng(seed)
        check(runner, random_tree(rng, 7, spec.vocab_size, 16, 600), rng, most_rows=4)
    runner.close()


@pytest.mark.parametrize("page_size", [32, 64, 128])
@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_neither_threads_nor_page_sizes_change_a_bit_of_what_is_shared(n_threads, page_size):
    spec = SPECS[2]
    source = tiny_source(spec)
    graph = build_graph(read_config(source), source)
    runner = NativeRunner(graph, source, n_pages=N_PAGES, page_size=page_size, n_threads=n_threads)
    rng = np.random.default_rng(n_threads * page_size)
    check(runner, random_tree(rng, 9, spec.vocab_size, page_size, 700), rng, most_rows=MOST_ROWS)


@pytest.mark.parametrize("n_sequences", [2, 3, 17, 40])
def test_a_long_prompt_in_common_gives_each_fork_the_bits_it_has_alone(n_sequences):
    """Many rows behind one prompt: more than share a pass, and all of them in the first unit of the plan."""
    spec = SPECS[0]
    source = tiny_source(spec)
    graph = build_graph(read_config(source), source)
    runner = NativeRunner(graph, source, n_pages=N_PAGES, page_size=16, n_threads=2)
    rng = np.random.default_rng(n_sequences)
    prompt = rng.integers(0, spec.vocab_size, 530).tolist()
    runner.forward(make_plan([Part(prompt, 0, range(34))], []))
    forks = []
    for b in range(n_sequences):
        own = 40 + 2 * b
        runner.copy_page(33, own)
        forks.append(Part([b + 1], len(prompt), [*range(33), own]))
    together = runner.forward(make_plan(forks))
    for row, fork in zip(together, forks, strict=True):
        assert np.array_equal(runner.forward(make_plan([fork]))[0], row)
