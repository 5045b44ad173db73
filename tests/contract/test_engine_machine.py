"""Promise 1 under stress: whatever is done to an engine, a request's answer is the one it gets alone.

UNSPOOL_MACHINE_STEPS=10000 makes each machine run so many steps (that on a real model a tenth).
"""

from __future__ import annotations

import os
from contextlib import closing

import pytest
from engine_machine import Machine, run_machines
from machine_requests import Sizes
from runners_under_test import RUNNERS
from tiny_models import TinySpec, tiny_source
from toy_engine import LETTERS, ToyAmateur, ToyVocabulary

from unspool.engine.limits import Limits
from unspool.models.loader import LoadedModel
from unspool.runners.native import NativeRunner
from unspool.runners.toy import ToyRunner

N_STEPS = int(os.environ.get("UNSPOOL_MACHINE_STEPS", 0))

PIECES = ToyVocabulary(
    [b"</s>", *(bytes([97 + i]) for i in range(26)), *(b"ab" * n for n in range(1, 70))], ends=(0,)
)
TINY = {
    "llama": TinySpec("llama", vocab_size=96),
    "gemma3 with a window": TinySpec("gemma3", n_layers=7, window=6, head_dim=32, vocab_size=96),
}
AMATEUR = TinySpec("llama", n_layers=1, vocab_size=96, seed=7)
ALWAYS_SEEN = {"compared", "stop", "length", "cancelled", "cached tokens", "preempted", "saved"}
SEEN_IN_LONG_RUNS = ALWAYS_SEEN | {
    *(
        "Beam",
        "ScriptedSearch",
        "error",
        "loop",
        "guided",
        "deadline",
        "refused",
        "loaded",
        "failed before",
        "failed after",
        "failed copy",
        "not copied",
    ),
    *("cancelled waiting", "cancelled prefill", "cancelled decode"),
    *("paused waiting", "paused prefill", "paused decode"),
}


def limits_of(rng) -> Limits:
    n_rows = int(rng.integers(5, 40))
    return Limits(
        n_rows=n_rows,
        n_tasks=int(rng.integers(1, 6)),
        n_preemptions=int(rng.integers(0, 4)),
        logits_bytes=int(rng.integers(1, 10_000)),
    )


def test_a_request_on_the_toy_runner_is_answered_as_if_alone():
    sizes = Sizes(LETTERS.vocab_size, n_prompt=24, n_new=12)

    def make(rng):
        page_size = int(rng.choice([2, 4, 8]))

        def runner(n_pages):
            return ToyRunner(n_pages=n_pages or 512, page_size=page_size)

        def amateur(n_pages):
            return ToyAmateur(n_pages=n_pages or 512, page_size=page_size)

        n_pages = int(rng.integers(40, 180)) // page_size
        return Machine(rng, runner, LETTERS, sizes, n_pages, limits_of(rng), amateur)

    seen = run_machines(range(40), N_STEPS or 1200, make)
    assert seen.keys() >= SEEN_IN_LONG_RUNS | {"contrasted"}


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("name", list(RUNNERS)[:2])  # the reference, and the native one on this machine
def test_a_request_on_a_tiny_model_is_answered_as_if_alone(name, model):
    source, small = tiny_source(TINY[model]), tiny_source(AMATEUR)
    page_size = 4 if name == "reference" else 16
    sizes = Sizes(PIECES.vocab_size, n_prompt=6 * page_size, n_new=10)

    def make(rng):
        n_pages = int(rng.integers(8, 30))

        def runner(n_pages):
            return RUNNERS[name](source, n_pages=n_pages or 64, page_size=page_size)

        def amateur(n_pages):
            return RUNNERS[name](small, n_pages=n_pages or 64, page_size=page_size)

        return Machine(rng, runner, PIECES, sizes, n_pages, limits_of(rng), amateur)

    seen = run_machines(range(10 if N_STEPS else 2), N_STEPS or 40, make)
    expected = SEEN_IN_LONG_RUNS - {"refused"} if N_STEPS >= 10_000 else {"compared", "length"}
    assert expected <= seen.keys()


@pytest.mark.model
def test_a_request_on_a_real_model_is_answered_as_if_alone(model_path):
    with closing(LoadedModel(model_path("smollm2-135m"))) as loaded:
        tokenizer = loaded.tokenizer
        sizes = Sizes(tokenizer.vocab_size, 48, 12, stops=(" the", "\n\n"), patterns=(r"\w+ing", "[.!?] "))
        runners = {}

        def runner(n_pages):
            """One for each size: what is left on its pages by engines before must not matter."""
            if n_pages not in runners:
                runners[n_pages] = NativeRunner(
                    loaded.graph, loaded.source, n_pages=n_pages or 64, page_size=16, n_threads=2
                )
            return runners[n_pages]

        def make(rng):
            return Machine(rng, runner, tokenizer, sizes, 14, limits_of(rng))

        seen = run_machines(range(4 if N_STEPS else 1), N_STEPS // 10 or 40, make)
    assert (ALWAYS_SEEN if N_STEPS >= 10_000 else {"compared", "length"}) <= seen.keys()


def test_a_machine_names_the_seed_that_fails():
    def make(rng):
        machine = Machine(rng, lambda n: ToyRunner(n_pages=n or 64), LETTERS, Sizes(8, 8, 4), 16, Limits())
        machine.engine.pool.take(1)
        return machine

    with pytest.raises(AssertionError, match="seed 7, after 0 steps"):
        run_machines([7], 5, make)
