"""Pages out of a runner and into one, on every runner: to the last bit, whatever the size of a page."""

from __future__ import annotations

import numpy as np
import pytest
from random_plans import Part, make_plan
from tiny_models import TinySpec, tiny_source

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.identity import identify
from unspool.runners.native import NativeRunner
from unspool.runners.reference import ReferenceRunner
from unspool.runners.toy import ToyRunner

SPECS = (TinySpec(), TinySpec("gemma2", window=5), TinySpec("llama", head_dim=24, n_heads=4, n_kv_heads=1))


def graph_of(source):
    return build_graph(read_config(source), source)


def toy(page_size):
    return ToyRunner(vocab_size=96, n_pages=9, page_size=page_size)


def runner_of(kind, spec):
    source = tiny_source(spec)
    return lambda page_size: kind(graph_of(source), source, n_pages=9, page_size=page_size)


MAKERS = {
    "toy": toy,
    **{f"reference {spec.label} {spec.head_dim}": runner_of(ReferenceRunner, spec) for spec in SPECS},
    **{f"native {spec.label} {spec.head_dim}": runner_of(NativeRunner, spec) for spec in SPECS},
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def make(request):
    return request.param


def test_a_page_that_was_read_and_written_back_elsewhere_gives_the_same_logits(make):
    tokens = np.random.default_rng(1).integers(0, 96, 40).tolist()
    first, second = make(16), make(16)
    first.forward(make_plan([Part(tokens[:39], 0, [4, 1, 7])]))
    for source, target in ((4, 0), (1, 8), (7, 3)):
        values = first.read_page(source)
        assert (values.shape, values.dtype) == ((16, first.kv_shape.token_bytes), np.uint8)
        second.write_page(target, values)
        assert second.read_page(target).tobytes() == values.tobytes()
    expected = first.forward(make_plan([Part(tokens[39:], 39, [4, 1, 7])]))
    assert second.forward(make_plan([Part(tokens[39:], 39, [0, 8, 3])])).tobytes() == expected.tobytes()


def test_tokens_go_from_pages_of_one_size_to_pages_of_another(make):
    tokens = np.random.default_rng(2).integers(0, 96, 33).tolist()
    small, large = make(16), make(32)
    small.forward(make_plan([Part(tokens[:32], 0, [5, 2, 6])]))
    large.write_page(3, np.concatenate([small.read_page(5), small.read_page(2)]))
    expected = small.forward(make_plan([Part(tokens[32:], 32, [5, 2, 6])]))
    assert large.forward(make_plan([Part(tokens[32:], 32, [3, 0])])).tobytes() == expected.tobytes()


def test_only_the_page_that_is_written_changes(make):
    runner = make(16)
    runner.forward(make_plan([Part([1] * 16, 0, [0]), Part([2] * 16, 0, [1])], []))
    before, other = runner.read_page(0), runner.read_page(1)
    runner.write_page(2, other)
    runner.write_page(1, before)
    assert runner.read_page(0).tobytes() == before.tobytes()
    assert runner.read_page(1).tobytes() == before.tobytes()
    assert runner.read_page(2).tobytes() == other.tobytes()


def test_a_page_out_of_range_or_of_another_size_is_refused_by_the_core():
    runner = MAKERS["native llama 16"](16)
    for page in (-1, 9):
        with pytest.raises(ValueError, match="out of range"):
            runner._engine.read_page(page)
        with pytest.raises(ValueError, match="out of range"):
            runner._engine.write_page(page, runner._engine.read_page(0))
    with pytest.raises(ValueError, match="number of values"):
        runner._engine.write_page(0, runner._engine.read_page(0)[:-1].copy())


def test_the_padding_of_a_head_stays_zero_in_the_core():
    runner = MAKERS["native llama 24"](16)
    runner.forward(make_plan([Part([1, 2, 3], 0, [2])], []))
    raw = runner._engine.read_page(2)
    runner.write_page(4, runner.read_page(2))
    assert runner._engine.read_page(4).tobytes() == raw.tobytes()


def test_other_weights_another_network_and_other_encodings_are_other_models():
    def identity(**settings):
        source = tiny_source(TinySpec(**settings))
        return identify(graph_of(source), source)

    own = identity()
    assert identity() == own
    assert own.name == "llama"
    others = [identity(seed=1), identity(context_length=64), identity(window=7), identity(n_layers=3)]
    assert len({own.sha256, *(other.sha256 for other in others)}) == 5


def test_a_change_anywhere_in_one_large_tensor_is_seen_when_it_is_everywhere():
    source = tiny_source(TinySpec(vocab_size=2048))
    own = identify(graph_of(source), source).sha256
    source.arrays["token_embd.weight"][:] *= np.float32(1.0000002)
    assert identify(graph_of(source), source).sha256 != own
