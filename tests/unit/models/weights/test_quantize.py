"""Our quantizer: what others read of its blocks, how near the values are, and what it refuses."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from unspool import _native
from unspool.errors import ModelFileError
from unspool.models.weights import Encoding, Tensor, dequantize
from unspool.models.weights.fit import fit_line, fit_scale
from unspool.models.weights.quantize import ENCODERS, RELATIVE_ERROR, quantize

KINDS = list(ENCODERS)


def tensor_of(values: np.ndarray) -> Tensor:
    values = np.ascontiguousarray(values, np.float32)
    return Tensor("w", values.shape, Encoding.F32, values.reshape(-1).view(np.uint8))


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean()))


@pytest.mark.parametrize("encoding", KINDS, ids=lambda e: e.label)
def test_the_error_of_normal_weights_is_no_larger_than_stated(encoding):
    values = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32) * 0.02
    error = relative_error(dequantize(quantize(tensor_of(values), encoding)), values)
    assert 0.9 * RELATIVE_ERROR[encoding] < error <= RELATIVE_ERROR[encoding]


@pytest.mark.parametrize("encoding", KINDS, ids=lambda e: e.label)
def test_the_gguf_package_reads_the_values_that_we_read(encoding):
    values = np.random.default_rng(1).standard_t(3, (8, 1024)).astype(np.float32)
    made = quantize(tensor_of(values), encoding)
    kind = gguf.GGMLQuantizationType[encoding.name]
    theirs = gguf.quants.dequantize(made.data, kind).reshape(values.shape)
    np.testing.assert_array_equal(dequantize(made), theirs)


@pytest.mark.parametrize("encoding", [Encoding.Q4_0, Encoding.Q4_1, Encoding.Q5_0, Encoding.Q5_1])
def test_the_search_comes_nearer_than_rounding_to_the_range_does(encoding):
    values = np.random.default_rng(2).standard_normal((64, 1024)).astype(np.float32)
    kind = gguf.GGMLQuantizationType[encoding.name]
    plain = gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind)
    ours = dequantize(quantize(tensor_of(values), encoding))
    assert relative_error(ours, values) < 0.96 * relative_error(plain, values)


@pytest.mark.parametrize("encoding", KINDS, ids=lambda e: e.label)
@pytest.mark.parametrize(
    "row",
    [np.zeros(256), np.full(256, 0.75), np.full(256, -3.5), np.eye(1, 256, 17)[0] * 40, np.full(256, 1e-30)],
    ids=["zeros", "one value", "one negative value", "an outlier", "below float16"],
)
def test_a_block_of_one_value_keeps_it(encoding, row):
    found = dequantize(quantize(tensor_of(row[None]), encoding))
    step = np.abs(row).max() * {4: 0.07, 5: 0.035, 6: 0.017, 8: 0.004}[int(encoding.label[1])]
    assert np.abs(found - row).max() <= step + 1e-12


@pytest.mark.parametrize("encoding", KINDS, ids=lambda e: e.label)
def test_the_bytes_do_not_depend_on_the_threads(encoding):
    values = np.random.default_rng(3).standard_normal((600, 512)).astype(np.float32)
    one = quantize(tensor_of(values), encoding, n_threads=1)
    assert one.data.tobytes() == quantize(tensor_of(values), encoding, n_threads=3).data.tobytes()
    part = quantize(tensor_of(values[17:40]), encoding)
    row_bytes = len(one.data) // 600
    assert part.data.tobytes() == one.data[17 * row_bytes : 40 * row_bytes].tobytes()


def test_half_floats_and_quantized_tensors_can_be_quantized():
    values = np.random.default_rng(4).standard_normal((4, 256)).astype(np.float16)
    half = Tensor("w", values.shape, Encoding.F16, values.reshape(-1).view(np.uint8))
    assert quantize(half, Encoding.Q8_0).data.tobytes() == (
        quantize(tensor_of(values), Encoding.Q8_0).data.tobytes()
    )
    once = quantize(half, Encoding.Q8_0)
    twice = quantize(once, Encoding.Q4_K)
    assert relative_error(dequantize(twice), values.astype(np.float32)) < 0.09


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("encoding", [Encoding.Q4_K, Encoding.F32], ids=lambda e: e.label)
def test_what_is_no_number_is_refused(encoding, bad):
    values = np.ones((2, 256), np.float32)
    values[1, 7] = bad
    with pytest.raises(ModelFileError, match="values: are infinite or not numbers; fetch"):
        quantize(tensor_of(values), encoding)


@pytest.mark.parametrize("encoding", [Encoding.Q4_K, Encoding.F16], ids=lambda e: e.label)
def test_what_has_no_place_in_float16_is_refused_where_that_is_used(encoding):
    values = np.ones((2, 256), np.float32)
    values[1, 7] = -70_000
    why = f"values: go up to 70000, and {encoding.label} takes 60000 at most; try bf16, f32"
    with pytest.raises(ModelFileError, match=why):
        quantize(tensor_of(values), encoding)
    for wide in (Encoding.F32, Encoding.BF16):
        assert dequantize(quantize(tensor_of(values), wide))[1, 7] == pytest.approx(-70_000, rel=0.004)
    values[1, 7] = 3.4e38
    with pytest.raises(ModelFileError, match="BF16 takes 3"):
        quantize(tensor_of(values), Encoding.BF16)


def test_a_line_through_whole_numbers_is_found_as_it_is():
    q = np.random.default_rng(5).permuted(np.tile(np.arange(16), (50, 2)), axis=1)
    x = (q * np.float32(0.5) - np.float32(3)).astype(np.float32)
    scale, minimum = fit_line(x, 15, lets_min_be_positive=True)
    np.testing.assert_allclose(scale, 0.5, rtol=1e-5)
    np.testing.assert_allclose(minimum, -3, rtol=1e-5)
    scale = fit_scale((q - 8).astype(np.float32) * np.float32(-0.25), -8)
    np.testing.assert_allclose(np.abs(scale), 0.25, rtol=1e-5)


def test_a_minimum_that_may_not_be_positive_is_zero():
    scale, minimum = fit_line(np.full((1, 32), 5, np.float32), 15, lets_min_be_positive=False)
    assert minimum == 0
    assert scale * 15 == pytest.approx(5)


def blocks_to_fit(width: int) -> np.ndarray:
    """Usual blocks, and those in which something is zero, equal, one-sided, tied or out of proportion."""
    rng = np.random.default_rng(width)
    usual = rng.standard_normal((150, width))
    outlier = rng.standard_normal((20, width))
    outlier[:, 0] = 3e4
    steps = rng.integers(-3, 4, (100, width)) * 0.5
    levels = np.array([0.0, 5.0, -5.0, 1e-35, -1e-29, 1e-20, 60_000.0])[:, None] * np.ones(width)
    alone = np.zeros((width, width))
    np.fill_diagonal(alone, -2.5)
    odd = [usual, np.abs(usual), -np.abs(usual), usual * 1e-30, usual * 1e4, outlier, steps, levels, alone]
    return np.concatenate(odd).astype(np.float32)


def same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("isa", _native.instruction_sets())
@pytest.mark.parametrize("width", [1, 16, 32, 256])
def test_the_native_fits_give_the_bits_of_their_twins(width: int, isa: str) -> None:
    x = blocks_to_fit(width)
    with np.errstate(all="ignore"):
        for highest in (3, 15, 31):
            for positive in (True, False):
                scale, minimum = _native.fit_lines(x, highest, positive, isa)
                wanted = fit_line(x, highest, lets_min_be_positive=positive)
                same_bits(scale, wanted[0][:, 0])
                same_bits(minimum, wanted[1][:, 0])
        for lowest in (-8, -16, -32):
            same_bits(_native.fit_scales(x, lowest, isa), fit_scale(x, lowest)[:, 0])


def test_the_native_fits_refuse_blocks_that_are_too_wide_and_take_none() -> None:
    assert _native.fit_lines(np.zeros((0, 32), np.float32), 15, True).shape == (2, 0)
    for width in (0, 257):
        with pytest.raises(ValueError, match="blocks of 1 to 256 values, got"):
            _native.fit_scales(np.zeros((3, width), np.float32), -8)


@pytest.mark.parametrize("encoding", [Encoding.F32, Encoding.F16, Encoding.BF16], ids=lambda e: e.label)
def test_plain_values_are_the_nearest_that_there_are(encoding):
    values = np.random.default_rng(5).standard_t(2, (64, 256)).astype(np.float32)
    values[0, :6] = [0.0, -0.0, 1.00390625, 1.01171875, 6e-8, 1e-30]  # ties of bfloat16, and the very small
    made = quantize(tensor_of(values), encoding)
    kind = gguf.GGMLQuantizationType[encoding.name]
    assert made.data.tobytes() == gguf.quants.quantize(values, kind).tobytes()
    if encoding in RELATIVE_ERROR:
        normal = np.random.default_rng(6).standard_normal((64, 1024)).astype(np.float32)
        error = relative_error(dequantize(quantize(tensor_of(normal), encoding)), normal)
        assert 0.97 * RELATIVE_ERROR[encoding] < error <= RELATIVE_ERROR[encoding]
