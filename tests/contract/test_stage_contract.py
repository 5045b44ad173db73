"""What every stage of the pipeline owes; a new stage is tested by being in PIPELINE."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.logits.orders import PIPELINE
from unspool.params import DecodingParams
from unspool.types import Row

# Parameters that make each stage active. A stage that is missing here fails the first test.
ACTIVE = {
    "temperature": [DecodingParams(temperature=t) for t in (1e-30, 0.2, 3, 100)],
    "top_k": [DecodingParams(top_k=k) for k in (1, 2, 7, 50)],
    "top_p": [DecodingParams(top_p=p) for p in (1e-9, 0.3, 0.8, 0.95)],
    "min_p": [DecodingParams(min_p=p) for p in (1e-9, 0.1, 0.5, 1)],
}


def row(params):
    return Row(params, seed=1, branch=0, token_ids=(1, 2, 3), n_prompt=2)


def table(seed, n_rows):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 40)).astype(np.float32) * 5
    z[rng.random(z.shape) < 0.4] = -np.inf
    z[:, seed % 40] = 1
    return z


def test_every_stage_is_held_to_the_contract():
    assert [stage.name for stage in PIPELINE] == list(ACTIVE)
    for stage in PIPELINE:
        assert all(stage.is_active(params) for params in ACTIVE[stage.name])


@pytest.mark.parametrize("stage", PIPELINE, ids=lambda stage: stage.name)
class TestStage:
    def test_is_inactive_for_default_and_for_greedy_parameters(self, stage):
        assert not stage.is_active(DecodingParams())
        assert not stage.is_active(DecodingParams(temperature=0))

    @given(seed=st.integers(0, 2**32 - 1))
    def test_does_not_write_to_its_input(self, stage, seed):
        z = table(seed, 4)
        before = z.tobytes()
        result = stage.apply(z, [row(p) for p in ACTIVE[stage.name]])
        assert z.tobytes() == before
        assert not np.shares_memory(result, z)
        assert (result.shape, result.dtype) == (z.shape, np.dtype(np.float32))
        assert stage.apply(z.astype(np.float64), [row(p) for p in ACTIVE[stage.name]]).dtype == np.float64

    @given(seed=st.integers(0, 2**32 - 1))
    def test_gives_a_row_in_a_batch_the_bits_of_the_row_alone(self, stage, seed):
        z = table(seed, 4)
        rows = [row(p) for p in ACTIVE[stage.name]]
        together = stage.apply(z, rows)
        for i in range(4):
            assert stage.apply(z[i : i + 1], rows[i : i + 1])[0].tobytes() == together[i].tobytes()

    @given(seed=st.integers(0, 2**32 - 1))
    def test_keeps_masks_makes_no_nan_and_leaves_a_candidate(self, stage, seed):
        z = table(seed, 4)
        result = stage.apply(z, [row(p) for p in ACTIVE[stage.name]])
        assert (result[z == -np.inf] == -np.inf).all()
        assert not np.isnan(result).any()
        assert (result > -np.inf).any(axis=1).all()

    @given(seed=st.integers(0, 2**32 - 1))
    def test_permutes_with_the_vocabulary(self, stage, seed):
        rng = np.random.default_rng(seed)
        z = np.stack([rng.permutation(40) for _ in range(4)]).astype(np.float32) / 4
        order = rng.permutation(40)
        rows = [row(p) for p in ACTIVE[stage.name]]
        permuted = stage.apply(np.ascontiguousarray(z[:, order]), rows)
        assert permuted.tobytes() == np.ascontiguousarray(stage.apply(z, rows)[:, order]).tobytes()
