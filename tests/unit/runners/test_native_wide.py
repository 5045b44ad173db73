"""Plans of many rows go through the native core in blocks of rows, with the bits that few rows have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
from random_plans import Part, make_plan, pages_for
from tiny_models import TinySpec, tiny_source, write_gguf

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.weights import open_weights
from unspool.runners.instructions import spans
from unspool.runners.native import NativeRunner

PAGE_SIZE = 16
N_PAGES = 64
N_SINGLE = 6  # sequences that add a row each
N_PAST = 21  # tokens of each of them
# About the number from which rows are many, what three and four threads share evenly, and several blocks.
N_ROWS = (31, 32, 33, 40, 48, 63, 64, 65, 72, 129, 160)

Encodings = Mapping[str, str] | str | None  # None: floats of 32 bits, from memory
# No thread gates what it computed where gate and up are not of one kind.
APART = {f"blk.{layer}.ffn_up.weight": "Q8_0" for layer in range(2)}
MODELS: dict[str, tuple[TinySpec, Encodings]] = {
    "llama of floats": (TinySpec("llama", qkv_bias=True), None),
    "llama with a window": (TinySpec("llama", window=7, tied=False), "Q4_0"),
    "qwen3 of two kinds": (TinySpec("qwen3", head_dim=32), APART),
    "gemma2 with caps": (TinySpec("gemma2", window=40), "Q8_0"),
    "gemma3 of halves": (TinySpec("gemma3", n_layers=7, window=6, head_dim=32), "F16"),
    "phi3": (TinySpec("phi3", window=9, tied=False), "Q5_1"),
}


@pytest.fixture(scope="module", params=MODELS)
def source(request, tmp_path_factory):
    spec, encodings = MODELS[request.param]
    source = tiny_source(dataclasses.replace(spec, context_length=256))
    if encodings is None:
        yield source
        return
    path = write_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", source, encodings)
    opened = open_weights(path)
    yield opened
    opened.close()


def native(source, n_threads: int) -> NativeRunner:
    graph = build_graph(read_config(source), source)
    return NativeRunner(graph, source, n_pages=N_PAGES, page_size=PAGE_SIZE, n_threads=n_threads)


@pytest.fixture(scope="module")
def texts() -> list[list[int]]:
    """A long one and some short ones."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 96, n).tolist() for n in (max(N_ROWS) + N_PAST, *[N_PAST + 1] * N_SINGLE)]


def pages_of(text: int, texts: list[list[int]]) -> range:
    needed = [pages_for(len(each), PAGE_SIZE) for each in texts]
    return range(sum(needed[:text]), sum(needed[: text + 1]))


@pytest.fixture(scope="module")
def expected(source, texts) -> list[np.ndarray]:
    """(T, V) logits of each text, from plans of few rows."""
    runner, found = native(source, 1), []
    for number, text in enumerate(texts):
        pages = pages_of(number, texts)
        parts = [Part(text[at : at + 7], at, pages) for at in range(0, len(text), 7)]
        found.append(np.concatenate([runner.forward(make_plan([part])) for part in parts]))
    runner.close()
    return found


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def runner(source, request):
    runner = native(source, request.param)
    yield runner
    runner.close()


@pytest.mark.parametrize("n_rows", N_ROWS)
def test_rows_of_a_prompt_have_the_bits_of_few_rows(runner, texts, expected, n_rows):
    pages = pages_of(0, texts)
    whole = runner.forward(make_plan([Part(texts[0][:n_rows], 0, pages)]))
    assert np.array_equal(whole, expected[0][:n_rows])
    # Behind what a plan that wanted no logits has left.
    none = runner.forward(make_plan([Part(texts[0][:N_PAST], 0, pages)], []))
    assert none.shape == (0, runner.vocab_size)
    chunk = Part(texts[0][N_PAST : N_PAST + n_rows], N_PAST, pages)
    last = runner.forward(make_plan([chunk], [n_rows - 1]))
    assert np.array_equal(last, expected[0][N_PAST + n_rows - 1 :][:1])


@pytest.mark.parametrize("n_rows", N_ROWS)
def test_a_prompt_beside_single_rows_leaves_all_the_bits_they_have_alone(runner, texts, expected, n_rows):
    singles = range(1, 1 + N_SINGLE)
    fill = [Part(texts[b][:N_PAST], 0, pages_of(b, texts)) for b in singles]
    runner.forward(make_plan(fill, []))
    n_new = n_rows - N_SINGLE
    parts = [Part(texts[b][N_PAST:], N_PAST, pages_of(b, texts)) for b in singles]
    parts.insert(2, Part(texts[0][:n_new], 0, pages_of(0, texts)))
    found = runner.forward(make_plan(parts))
    alone = [expected[b][N_PAST:] for b in singles]
    alone.insert(2, expected[0][:n_new])
    assert np.array_equal(found, np.concatenate(alone))
    # Some rows are wanted, and not the first.
    wanted = np.arange(1, n_rows, 3)
    assert np.array_equal(runner.forward(make_plan(parts, wanted)), np.concatenate(alone)[wanted])
    # K and V of rows whose logits nobody wanted are there.
    runner.forward(make_plan(parts, []))
    next_row = make_plan([Part(texts[0][n_new : n_new + 1], n_new, pages_of(0, texts))])
    assert np.array_equal(runner.forward(next_row), expected[0][n_new : n_new + 1])


@pytest.mark.parametrize("n_rows", [5, 64])
def test_what_a_thread_notes_of_a_pass_is_in_order_and_tells_of_every_instruction(runner, texts, n_rows):
    plan = make_plan([Part(texts[0][:n_rows], 0, pages_of(0, texts))], [n_rows - 1])
    runner.note_times(True)
    runner.forward(plan)
    noted = list(spans(runner.instructions, runner.times()))
    runner.note_times(False)
    assert runner.times().shape == (0, 5)
    runner.forward(plan)
    assert runner.times().shape == (0, 5)
    assert {id(span.instruction) for span in noted} == {id(each) for each in runner.instructions}
    for thread in range(runner.n_threads):
        ended = 0
        for span in noted:
            if span.thread == thread:
                assert ended <= span.ready_ns <= span.began_ns <= span.ended_ns
                ended = span.ended_ns
