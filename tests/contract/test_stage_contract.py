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
    "dynatemp": [
        DecodingParams(dynatemp_min=low, dynatemp_max=high, dynatemp_exponent=e)
        for low, high, e in ((0, 0, 1), (0, 2, 1), (0.5, 1.5, 2), (3, 100, 0.1))
    ],
    "edt": [
        DecodingParams(edt_theta=theta, edt_base=base, temperature=t)
        for theta, base, t in ((0.5, 0.8, 1), (100, 1e-9, 1e-30), (0.1, 0.5, 3), (2, 0.99, 100))
    ],
    "smoothing": [
        DecodingParams(smoothing_factor=f, smoothing_curve=c)
        for f, c in ((0.2, 1), (0.2, 3), (1e-9, 2), (100, 1.5))
    ],
    "top_n_sigma": [DecodingParams(top_n_sigma=n) for n in (1e-9, 0.5, 1, 2)],
    "top_k": [DecodingParams(top_k=k) for k in (1, 2, 7, 50)],
    "top_p": [DecodingParams(top_p=p) for p in (1e-9, 0.3, 0.8, 0.95)],
    "min_p": [DecodingParams(min_p=p) for p in (1e-9, 0.1, 0.5, 1)],
    "typical": [DecodingParams(typical_p=p) for p in (1e-9, 0.3, 0.8, 0.95)],
    "top_h": [DecodingParams(top_h=h) for h in (1e-9, 0.3, 0.6, 0.95)],
    "epsilon": [DecodingParams(epsilon_cutoff=e) for e in (1e-9, 3e-4, 0.1, 0.9)],
    "eta": [DecodingParams(eta_cutoff=e) for e in (1e-9, 3e-4, 0.1, 0.9)],
    "top_a": [DecodingParams(top_a=a) for a in (1e-9, 0.1, 0.5, 1)],
    "tfs": [DecodingParams(tfs_z=z) for z in (1e-9, 0.3, 0.8, 0.95)],
    "xtc": [
        DecodingParams(xtc_probability=pi, xtc_threshold=t)
        for pi, t in ((1, 0), (1, 0.01), (0.5, 0.1), (1e-9, 0.5))
    ],
    "mirostat": [
        DecodingParams(mirostat=version, mirostat_tau=tau)
        for version, tau in ((1, 0.1), (1, 3), (2, 1e-9), (2, 2))
    ],
    "adaptive": [DecodingParams(adaptive_target=target) for target in (0, 0.1, 0.5, 1)],
}


EXTREMES = {
    "one survivor": [-np.inf, 3, -np.inf, -np.inf],
    "all equal": [2.5] * 9,
    "all equal and huge": [-1e30] * 9,
    "two equal and the rest masked": [-np.inf, -1e30, -np.inf, -1e30, -np.inf],
    "huge": [1e30, -1e30, 1e30, 0, 3e38, -3e38],
    "huge and masked": [-3e38, -np.inf, -np.inf, -3e38, -np.inf, 3e38],
    "one that is certain": [0, -1000, -1e6, -1e38, -np.inf],
    "tiny": [1e-45, 0, -1e-45, 1e-38],
    "barely apart": [1, 1 + 2**-23, 1, 1 - 2**-23],
}


def row(params):
    return Row(params, seed=1, branch=0, token_ids=(1, 2, 3), n_prompt=2)


def table(seed, n_rows):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 40)).astype(np.float32) * 5
    z[rng.random(z.shape) < 0.4] = -np.inf
    z[:, seed % 40] = 1
    return z


def assert_close(result, expected):
    """Same survivors, and logits that differ by rounding at most."""
    assert ((result > -np.inf) == (expected > -np.inf)).all()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-9)


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
        # Sums over the vocabulary go in another order then, so the last bits may differ.
        assert_close(permuted, stage.apply(z, rows)[:, order])

    @given(seed=st.integers(0, 2**32 - 1), constant=st.sampled_from([-64.0, -0.25, 8.0, 512.0]))
    def test_gives_the_same_distribution_when_a_constant_is_added(self, stage, seed, constant):
        z = np.random.default_rng(seed).integers(-40, 40, size=(4, 40)) / 4.0
        rows = [row(p) for p in ACTIVE[stage.name]]
        shifted, plain = stage.apply(z + constant, rows), stage.apply(z, rows)
        assert_close(shifted - shifted.max(axis=1, keepdims=True), plain - plain.max(axis=1, keepdims=True))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("extreme", EXTREMES, ids=list(EXTREMES))
    def test_survives_numbers_that_breed_nan(self, stage, extreme, dtype):
        z = np.array([EXTREMES[extreme]] * 4, dtype=dtype)
        result = stage.apply(z, [row(p) for p in ACTIVE[stage.name]])
        assert (result[z == -np.inf] == -np.inf).all()
        assert (result < np.inf).all()  # which a NaN is not
        assert (result > -np.inf).any(axis=1).all()
