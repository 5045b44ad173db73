"""Every encoding decodes to the very values of the gguf package, and to values worked out by hand."""

import gguf
import numpy as np
import pytest

from unspool.models.weights import Encoding, Tensor, dequantize, dequantize_rows

N_BLOCKS = 2000  # every byte of a block takes every value, whatever the encoding


def tensor(encoding: Encoding, data: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    return Tensor("blk.0.test.weight", shape, encoding, data)


def random_tensor(encoding: Encoding, shape: tuple[int, ...], seed: int = 1) -> Tensor:
    n_bytes = int(np.prod(shape)) // encoding.block_values * encoding.block_bytes
    data = np.random.default_rng(seed).integers(0, 256, n_bytes, dtype=np.uint8)
    return tensor(encoding, data, shape)


@pytest.mark.parametrize("encoding", Encoding)
def test_random_blocks_decode_to_the_values_of_the_gguf_package(encoding):
    stored = random_tensor(encoding, (N_BLOCKS, encoding.block_values))
    with np.errstate(all="ignore"):  # random float16 scales include infinities and NaN
        expected = gguf.quants.dequantize(stored.data, gguf.GGMLQuantizationType[encoding.label])
    ours = dequantize(stored)
    assert ours.dtype == np.float32
    assert ours.shape == stored.shape
    expected = expected.reshape(stored.shape).astype(np.float32)
    assert np.isfinite(expected).mean() > 0.9
    np.testing.assert_array_equal(ours, expected)  # NaN in the same places, all else equal
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.signbit(ours[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("encoding", Encoding)
def test_block_sizes_are_those_of_the_gguf_package(encoding):
    sizes = gguf.constants.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[encoding.label]]
    assert sizes == (encoding.block_values, encoding.block_bytes)


@pytest.mark.parametrize("encoding", Encoding)
def test_a_tensor_longer_than_one_step_decodes_like_its_parts(encoding):
    stored = random_tensor(encoding, (1, 3, 257, 512))
    whole = dequantize(stored)
    row_bytes = 512 // encoding.block_values * encoding.block_bytes
    last = tensor(encoding, stored.data[-row_bytes:], (512,))
    np.testing.assert_array_equal(whole[0, 2, 256], dequantize(last))


@pytest.mark.parametrize("encoding", Encoding)
def test_rows_decode_like_the_rows_of_the_whole_tensor(encoding):
    stored = random_tensor(encoding, (19, 512))
    rows = [18, 0, 7, 7]
    np.testing.assert_array_equal(dequantize_rows(stored, rows), dequantize(stored)[rows])


def test_no_rows_give_an_empty_matrix():
    assert dequantize_rows(random_tensor(Encoding.Q4_K, (4, 256)), []).shape == (0, 256)


@pytest.mark.parametrize("row", [-1, 4])
def test_a_row_outside_the_table_is_refused(row):
    with pytest.raises(IndexError, match="rows 0 to 3"):
        dequantize_rows(random_tensor(Encoding.Q8_0, (4, 32)), [0, row])


@pytest.mark.parametrize("encoding", [Encoding.F32, Encoding.F16, Encoding.BF16])
def test_plain_values_decode_from_an_unaligned_read_only_view(encoding):
    stored = random_tensor(encoding, (3, 8))
    shifted = np.frombuffer(b"x" + stored.data.tobytes(), dtype=np.uint8)[1:]
    ours = dequantize(tensor(encoding, shifted, (3, 8)))
    np.testing.assert_array_equal(ours, dequantize(stored))
    assert ours.flags.writeable
    assert ours.flags.aligned


def test_q4_0_by_hand():
    half = np.array([0.5], dtype="<f2").view(np.uint8)
    packed = np.full(16, 0x80, dtype=np.uint8)  # low nibble 0 -> -8, high nibble 8 -> 0
    packed[3] = 0xF9  # value 3 is 9 - 8, value 19 is 15 - 8
    values = dequantize(tensor(Encoding.Q4_0, np.concatenate([half, packed]), (32,)))
    expected = np.array([-4.0] * 16 + [0.0] * 16, dtype=np.float32)
    expected[3], expected[19] = 0.5, 3.5
    np.testing.assert_array_equal(values, expected)


def test_bf16_is_the_upper_half_of_a_float32():
    data = np.array([0x3F80, 0xC000, 0x7F80], dtype="<u2").view(np.uint8)
    np.testing.assert_array_equal(dequantize(tensor(Encoding.BF16, data, (3,))), [1.0, -2.0, np.inf])
