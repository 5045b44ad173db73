"""The native runner against the reference runner, and what it refuses."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from random_plans import Part, make_plan, pages_for, random_steps
from tiny_models import TINY_SPECS, TinySpec, tiny_source

from unspool.errors import BadRequest, CapacityError, UnsupportedModel
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.runners.native import NativeRunner, instruction_sets
from unspool.runners.reference import ReferenceRunner

# A context of several segments (128 tokens each), pages of 16 and of 64 tokens.
LONG = dataclasses.replace(TinySpec(), context_length=512)
LONG_WINDOW = dataclasses.replace(TinySpec("gemma2"), context_length=512, window=150)


def assert_close(logits: np.ndarray, expected: np.ndarray) -> None:
    """Equal up to float32 rounding, except that a K or V beside a float16 boundary may be stored one step
    (2^-11 of its size) apart, which the logits then show."""
    difference = np.abs(logits - expected)
    assert difference.max() < 5e-3
    assert difference.mean() < 3e-4


def graph_of(source):
    return build_graph(read_config(source), source)


def native(source, **settings) -> NativeRunner:
    return NativeRunner(graph_of(source), source, **{"n_pages": 24, "page_size": 16, **settings})


def tokens_of(spec: TinySpec, length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, spec.vocab_size, length).tolist()


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("spec", TINY_SPECS, ids=lambda spec: spec.label)
def test_float_models_equal_the_reference(spec, isa):
    source = tiny_source(spec)
    plan = make_plan([Part(tokens_of(spec, 45), 0, [4, 1, 7])])
    expected = ReferenceRunner(graph_of(source), source, n_pages=24, page_size=16).forward(plan)
    assert_close(native(source, isa=isa).forward(plan), expected)


@pytest.mark.parametrize("spec", [LONG, LONG_WINDOW], ids=["full", "window"])
@pytest.mark.parametrize("page_size", [16, 64])
def test_contexts_of_several_segments_equal_the_reference(spec, page_size):
    source = tiny_source(spec)
    tokens = tokens_of(spec, 400)
    pages = list(range(pages_for(400, page_size)))
    plan = make_plan([Part(tokens, 0, pages)])
    settings = {"n_pages": 32, "page_size": page_size}
    expected = ReferenceRunner(graph_of(source), source, **settings).forward(plan)
    assert_close(native(source, **settings).forward(plan), expected)


@pytest.mark.parametrize("spec", [LONG, LONG_WINDOW], ids=["full", "window"])
def test_long_contexts_give_the_same_bits_split_by_segment_or_not_and_for_any_threads(spec):
    source = tiny_source(spec)
    sequences = [tokens_of(spec, length, seed=length) for length in (300, 131, 7, 256)]
    pages = np.cumsum([0] + [pages_for(len(tokens), 16) for tokens in sequences])
    settings = {"n_pages": 64, "page_size": 16}
    whole = native(source, n_threads=1, **settings)
    expected = [
        whole.forward(make_plan([Part(tokens, 0, list(range(pages[b], pages[b + 1])))]))
        for b, tokens in enumerate(sequences)
    ]
    for n_threads in (1, 2, 3):
        runner = native(source, n_threads=n_threads, **settings)
        rng = np.random.default_rng(n_threads)
        for step in random_steps(rng, sequences, page_size=16, n_pages=64, max_chunk=90):
            for row, (sequence, position) in zip(runner.forward(step.plan), step.owners, strict=True):
                assert np.array_equal(row, expected[sequence][position])


@pytest.mark.parametrize("spec", [LONG, LONG_WINDOW], ids=["full", "window"])
def test_the_page_size_does_not_change_a_bit(spec):
    source, tokens, results = tiny_source(spec), tokens_of(spec, 300), set()
    for page_size in (16, 32, 64, 128):
        pages = list(range(pages_for(300, page_size)))[::-1]
        runner = native(source, page_size=page_size)
        results.add(runner.forward(make_plan([Part(tokens, 0, pages)])).tobytes())
    assert len(results) == 1


def test_threads_do_not_change_a_bit():
    source = tiny_source(TinySpec("gemma3", n_layers=3, window=6))
    plan = make_plan([Part(tokens_of(TinySpec(), 40), 0, [0, 1, 2]), Part([3], 0, [3])])
    results = [native(source, n_threads=n).forward(plan).tobytes() for n in (1, 2, 3, 5)]
    assert len(set(results)) == 1


@pytest.mark.parametrize("vocab_size", [97, 111])
def test_a_vocabulary_that_fills_no_whole_tile_is_computed_in_full(vocab_size):
    source = tiny_source(TinySpec(vocab_size=vocab_size))
    plan = make_plan([Part([1, 2, 3], 0, [0])])
    expected = ReferenceRunner(graph_of(source), source, n_pages=1, page_size=16).forward(plan)
    logits = native(source).forward(plan)
    assert logits.shape == (3, vocab_size)
    assert_close(logits, expected)


def test_the_runner_tells_what_it_holds():
    runner = native(tiny_source(TinySpec()))
    assert runner.isa in instruction_sets()
    assert runner.weight_bytes > 0
    # 24 pages of 16 tokens, 2 layers, K and V, 2 heads of 16 float16 values
    assert runner.kv_bytes == 24 * 16 * 2 * 2 * 2 * 16 * 2
    runner.close()
    with pytest.raises(AssertionError, match="closed"):
        runner.forward(make_plan([Part([1], 0, [0])]))


def test_a_forced_instruction_set_is_used(monkeypatch):
    monkeypatch.setenv("UNSPOOL_ISA", "portable")
    assert native(tiny_source(TinySpec())).isa == "portable"


def test_settings_out_of_range_are_refused_with_the_way_out(monkeypatch):
    source = tiny_source(TinySpec())
    with pytest.raises(BadRequest, match=r"threads must be a whole number in \[1, 256\], got 0"):
        native(source, n_threads=0)
    with pytest.raises(BadRequest, match="page_size must be one of"):
        native(source, page_size=8)
    monkeypatch.setenv("UNSPOOL_ISA", "mmx")
    with pytest.raises(BadRequest, match="UNSPOOL_ISA takes one of"):
        native(source)


def test_threads_that_the_system_does_not_give_are_an_error_and_no_crash(monkeypatch):
    def refuse(n_threads, isa):
        raise RuntimeError("Resource temporarily unavailable")

    monkeypatch.setattr("unspool._native.Engine", refuse)
    with pytest.raises(CapacityError, match=r"gives no 200 threads .* give fewer threads"):
        native(tiny_source(TinySpec()), n_threads=200)
    monkeypatch.setattr("unspool.thread_count.usable_processors", lambda: 300)
    with pytest.raises(CapacityError, match=r"gives no 256 threads"):
        native(tiny_source(TinySpec()), n_threads=None)


def test_a_head_past_the_limit_is_refused():
    source = tiny_source(TinySpec(head_dim=528))
    with pytest.raises(UnsupportedModel, match="heads have 528 values"):
        native(source)


OUT_OF_MEMORY = """
import pathlib, resource
import numpy as np
from random_plans import Part, make_plan
from tiny_models import TinySpec, tiny_source
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.runners.native import NativeRunner

source = tiny_source(TinySpec(context_length=1 << 17))
graph = build_graph(read_config(source), source)
runner = NativeRunner(graph, source, n_pages=8192, page_size=16, n_threads=1)
small = make_plan([Part([1, 2, 3], 0, [0])])
before = runner.forward(small)
n_rows = 100_000  # about 300 MB of registers
large = make_plan([Part([1] * n_rows, 0, range(n_rows // 16))], [n_rows - 1])
taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), resource.RLIM_INFINITY))
for _ in range(2):
    try:
        runner.forward(large)
    except MemoryError:
        print("no memory")
print(np.array_equal(runner.forward(small), before))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space of a process")
def test_a_plan_that_memory_does_not_hold_fails_each_time_and_changes_nothing():
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY],
        env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split("\n")) == (0, ["no memory", "no memory", "True", ""]), (
        done.stderr
    )
