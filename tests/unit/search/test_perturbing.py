"""The largest values with noise, found without the noise of all."""

from __future__ import annotations

import numpy as np
import pytest
from searching import found
from toy_engine import ToyVocabulary

from unspool.rng import Noise
from unspool.search import perturbing
from unspool.search.beam_sample import BeamSample
from unspool.search.perturbing import contenders
from unspool.search.stochastic_beam import StochasticBeam

WIDE = ToyVocabulary([b"</s>", *(b"%d " % i for i in range(1, 900))], ends=(0,))


@pytest.mark.parametrize("spread", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("n", [1, 4, 40])
def test_the_n_largest_are_among_the_contenders_and_nobody_else_reaches_the_floor(n, spread):
    rng = np.random.default_rng(3)
    ids = np.flatnonzero(rng.random(9000) < 0.6)
    values = rng.normal(size=ids.size) * spread
    for seed in range(5):
        noise = Noise(seed, 2, 17, "test")
        at, floor = contenders(values, ids, noise, n)
        perturbed = values + noise.gumbel(ids)
        assert set(np.argsort(-perturbed)[:n]) <= set(at.tolist())
        assert np.count_nonzero(perturbed[at] > floor) >= n
        others = np.delete(np.arange(ids.size), at)
        assert (perturbed[others] < floor).all()
        assert at.size < ids.size / 2


def test_of_few_everybody_is_a_contender():
    values = np.zeros(20)
    at, floor = contenders(values, np.arange(20), Noise(0, 0, 0, "test"), 3)
    assert at.tolist() == list(range(20))
    assert floor == -np.inf


@pytest.mark.parametrize(
    "search",
    [BeamSample(width=1), BeamSample(width=5, n_best=5), StochasticBeam(1), StochasticBeam(6)],
)
@pytest.mark.parametrize("asked", [{}, {"temperature": 3.0, "stop": ["7 "]}])
def test_a_search_finds_the_same_with_the_noise_of_all(search, asked, monkeypatch):
    settings = {"vocabulary": WIDE, "n_pages": 128}
    for seed in range(3):
        quick = found(search, asked={"seed": seed, "logprobs": None, **asked}, **settings)
        with monkeypatch.context() as patched:
            patched.setattr(perturbing, "_FEW", 10_000)
            assert found(search, asked={"seed": seed, **asked}, **settings) == quick
