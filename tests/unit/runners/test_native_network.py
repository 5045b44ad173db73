"""A network that does not make sense is refused before it runs: nothing in it may reach memory."""

from __future__ import annotations

import numpy as np
import pytest

from unspool import _native
from unspool.models.weights import Encoding
from unspool.runners.native_builder import TYPE_NUMBERS


def tiny_engine(n_threads=1):
    """Two registers of 32, a matrix from one to the other, a norm's weight and a rope; nothing in between."""
    engine = _native.Engine(n_threads, "")
    x, y, kv = engine.add_register(32), engine.add_register(32), engine.add_register(16)
    square = engine.add_matrix(TYPE_NUMBERS[Encoding.F32], np.ones(32 * 32, "<f4").view(np.uint8), 32, 32)
    weight = engine.add_vector(np.ones(32, np.float32))
    rope = engine.add_rope(np.ones(8), 1.0)
    assert (x, y, kv, square, weight, rope) == (0, 1, 2, 0, 0, 0)
    return engine


SIZES = {"vocab_size": 32, "context_length": 64, "n_layers": 1, "n_kv_heads": 1, "head_dim": 16}
SIZES |= {"n_pages": 2, "page_size": 16}
INSTRUCTIONS = {
    "an embedding into no register": lambda e: e.embed(9, 0, 1.0),
    "an embedding from no matrix": lambda e: e.embed(0, 1, 1.0),
    "an embedding of another width": lambda e: e.embed(2, 0, 1.0),
    "a norm by no vector": lambda e: e.norm(1, 0, -1, 1e-5, 32, False),
    "a norm of groups of none": lambda e: e.norm(1, 0, 0, 1e-5, 0, False),
    "a norm by too short a weight": lambda e: e.norm(-2, -2, 0, 1e-5, 64, False),
    "a product of no register": lambda e: e.linear(-1, [(0, -1, 1, False)], False),
    "a product of another width": lambda e: e.linear(2, [(0, -1, 1, False)], False),
    "a product into another width": lambda e: e.linear(0, [(0, -1, 2, False)], False),
    "a bias that is not there": lambda e: e.linear(0, [(0, 4, 1, False)], False),
    "a rope by no table": lambda e: e.rope(0, 1, 16, False),
    "a rope of more than a head": lambda e: e.rope(0, 0, 8, False),
    "attention of no layer": lambda e: e.attention(1, 0, 2, 2, 1, 2, 1, 1.0, 0.0, 0),
    "attention of no K and V heads": lambda e: e.attention(1, 0, 2, 2, 0, 2, 0, 1.0, 0.0, 0),
    "attention of more heads than queries": lambda e: e.attention(1, 0, 2, 2, 0, 3, 1, 1.0, 0.0, 0),
    "attention of a query as K": lambda e: e.attention(1, 0, 0, 2, 0, 2, 1, 1.0, 0.0, 0),
    "a gate of two widths": lambda e: e.gated(0, 1, 2, False, False),
    "a sum of two widths": lambda e: e.add(0, 1, 2, False),
    "a cap into no register": lambda e: e.softcap(7, 0, 1.0, False),
    "attention of heads past all numbers": lambda e: e.attention(
        1, 0, 2, 2, 0, 2 + (1 << 28), 1, 1.0, 0.0, 0
    ),
    "a selection into another width": lambda e: e.select(2, 0),
    "a selection from logits": lambda e: e.select(1, -2),
    "a selection onto what it reads": lambda e: e.select(0, 0),
    "logits of all rows": lambda e: e.linear(0, [(0, -1, -2, False)], False),
    "attention into logits": lambda e: e.attention(-2, 0, 2, 2, 0, 2, 1, 1.0, 0.0, 0),
    "a cap of logits that nobody selected": lambda e: e.softcap(-2, -2, 1.0, False),
    "wanted rows before they are selected": lambda e: e.norm(-2, 0, 0, 1e-5, 32, True),
    "all rows after some were selected": lambda e: (e.select(1, 0), e.norm(0, 0, 0, 1e-5, 32, False)),
    "a gate into logits": lambda e: (e.select(1, 0), e.gated(-2, 1, 0, False, True)),
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_that_does_not_fit_is_refused_when_the_network_is_finished(name: str) -> None:
    engine = tiny_engine()
    engine.embed(0, 0, 1.0)
    INSTRUCTIONS[name](engine)
    with pytest.raises(ValueError, match=r"^instruction: "):
        engine.finish(**SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_of_nothing_is_refused(name: str) -> None:
    engine = tiny_engine()
    engine.embed(0, 0, 1.0)
    with pytest.raises(ValueError, match=r"^finish: "):
        engine.finish(**SIZES | {name: 0})


def test_a_network_is_finished_once_and_before_it_runs() -> None:
    engine = tiny_engine()
    none = np.zeros(0, np.int32)
    for call in (
        lambda: engine.forward(none, none, none, none, none, none),
        lambda: engine.note_times(True),
        lambda: engine.times(),
    ):
        with pytest.raises(ValueError, match="call finish first"):
            call()
    engine.embed(0, 0, 1.0)
    engine.finish(**SIZES)
    for add in (
        lambda: engine.finish(**SIZES),
        lambda: engine.embed(0, 0, 1.0),
        lambda: engine.add_register(32),
        lambda: engine.add_vector(np.ones(1, np.float32)),
        lambda: engine.add_rope(np.ones(1), 1.0),
        lambda: engine.add_matrix(TYPE_NUMBERS[Encoding.F32], np.zeros(4, np.uint8), 1, 1),
    ):
        with pytest.raises(ValueError, match="finished"):
            add()


def test_a_network_without_instructions_or_with_matrices_to_pack_is_refused() -> None:
    with pytest.raises(ValueError, match="no instructions"):
        tiny_engine().finish(**SIZES)
    engine = tiny_engine()
    engine.embed(0, 0, 1.0)
    engine.plan_matrix(TYPE_NUMBERS[Encoding.F32], np.zeros(4, np.uint8), 1, 1, False)
    with pytest.raises(ValueError, match="planned and not packed"):
        engine.finish(**SIZES)


@pytest.mark.parametrize("n_threads", [0, -1])
def test_an_engine_has_a_thread(n_threads: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        _native.Engine(n_threads, "")
