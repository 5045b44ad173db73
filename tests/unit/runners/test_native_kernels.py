"""The packed weights and the matrix kernels, against their NumPy twins, on every instruction set here."""

from __future__ import annotations

import numpy as np
import pytest

from unspool import _native
from unspool.models.weights import Encoding, Tensor, dequantize
from unspool.runners.native import instruction_sets
from unspool.runners.native_builder import TYPE_NUMBERS

QUANTIZED = [e for e in Encoding if e.block_values > 1]


def random_tensor(encoding: Encoding, n: int, k: int, seed: int) -> Tensor:
    """Random quants with small finite float16 scales: every 16-bit field of a block is kept in range."""
    rng = np.random.default_rng(seed)
    if encoding is Encoding.F32:
        data = rng.standard_normal(n * k).astype(np.float32).view(np.uint8)
    elif encoding is Encoding.F16:
        data = rng.standard_normal(n * k).astype(np.float16).view(np.uint8)
    elif encoding is Encoding.BF16:
        data = (rng.standard_normal(n * k).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        data = data.view(np.uint8)
    else:
        n_blocks = n * k // encoding.block_values
        blocks = rng.integers(0, 256, (n_blocks, encoding.block_bytes), dtype=np.uint8)
        for offset in SCALE_OFFSETS[encoding]:
            scales = (rng.standard_normal(n_blocks) * 0.01).astype(np.float16)
            blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(n_blocks, 2)
        data = blocks.reshape(-1)
    return Tensor("w", (n, k), encoding, np.ascontiguousarray(data))


# Byte offsets of the float16 fields of a block.
SCALE_OFFSETS = {
    Encoding.Q4_0: (0,),
    Encoding.Q4_1: (0, 2),
    Encoding.Q5_0: (0,),
    Encoding.Q5_1: (0, 2),
    Encoding.Q8_0: (0,),
    Encoding.Q2_K: (80, 82),
    Encoding.Q3_K: (108,),
    Encoding.Q4_K: (0, 2),
    Encoding.Q5_K: (0, 2),
    Encoding.Q6_K: (208,),
    Encoding.IQ4_NL: (0,),
    Encoding.IQ4_XS: (0,),
}


# Kinds with two levels of scales and groups of 32, but for 4 bits: their inputs have one scale for the group.
WHOLE_GROUPS = (Encoding.Q5_K, Encoding.IQ4_XS)
# Kinds that know inputs whose scales are powers of two; they take others, too.
SHIFTED = (Encoding.Q4_K, Encoding.Q6_K)
# Those of them with mins: they meet the sums of groups, rounded to 16 bits.
MULTIPLYING_SUMS = (Encoding.Q4_K, Encoding.Q5_K)
PRODUCTS = [(e, False) for e in Encoding] + [(e, True) for e in SHIFTED]
PRODUCT_IDS = [e.label + " shifted" * shifts for e, shifts in PRODUCTS]


# The quantizer takes 256 inputs at a time: widths of whole such blocks, and with one and three groups left.
# Floats take any width, those in bfloat16 two inputs at a time: an odd one, too.
WIDTHS = (512, 544, 96, 77)


def with_widths(products: list[tuple[Encoding, bool]]) -> list[tuple[Encoding, bool, int]]:
    return [(e, shifts, k) for e, shifts in products for k in WIDTHS if k % e.block_values == 0]


def quantize_rows(
    x: np.ndarray, group: int, shifts: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 8-bit form of activations, the twin of the kernel's quantizer: quants (R, groups, group), their
    scales as multiples of their row's unit (R, groups, 1), and the units (R, 1, 1)."""
    rows, k = x.shape
    groups = np.pad(x, ((0, 0), (0, -k % 32))).reshape(rows, -1, group)
    to_127th = np.float32(1) / np.float32(127)
    largest = np.abs(groups).max(-1, keepdims=True)
    top = np.maximum(largest.max(1, keepdims=True) * to_127th, np.float32(1e-33))
    unit = top * (np.float32(1) / np.float32(16383 if shifts else 32766))
    needed = np.maximum(largest * (to_127th / unit), np.float32(1))
    up = 2 ** np.ceil(np.log2(needed.astype(np.float64)))
    times = up.astype(np.float32) if shifts else np.rint(needed + np.float32(0.5))
    assert times.max() <= (16384 if shifts else 32767)
    quants = np.rint(groups * (np.float32(1) / (times * unit)))
    assert np.abs(quants).max() <= 127
    return quants, times, unit


def halved(x: np.ndarray) -> np.ndarray:
    """Rounded to bfloat16, ties to even, and back in float: what weights of that kind meet."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32))


def as_seen(x: np.ndarray, encoding: Encoding, shifts: bool) -> np.ndarray:
    """What of the inputs the weights of an encoding are multiplied by."""
    if encoding not in QUANTIZED:
        return (halved(x) if encoding is Encoding.BF16 else x).astype(np.float64)
    quants, times, unit = quantize_rows(x, 32 if encoding in WHOLE_GROUPS else 16, shifts)
    return (quants * times.astype(np.float64) * unit.astype(np.float64)).reshape(len(x), -1)[:, : x.shape[1]]


def twin_product(tensor: Tensor, x: np.ndarray, shifts: bool) -> tuple[np.ndarray, np.ndarray]:
    """The product in float64, and the magnitude of what was added."""
    seen, weights = as_seen(x, tensor.encoding, shifts), dequantize(tensor).astype(np.float64)
    product = seen @ weights.T
    if tensor.encoding in MULTIPLYING_SUMS:
        product += sums_lost(x, tensor.encoding, shifts) @ mins_of(tensor).T
    return product, np.abs(seen) @ np.abs(weights).T


def sums_lost(x: np.ndarray, encoding: Encoding, shifts: bool) -> np.ndarray:
    """What rounding adds to the sum of each group of 32 inputs, (R, groups). What one loses the fourth after
    it makes up for."""
    quants, times, unit = quantize_rows(x, 32 if encoding in WHOLE_GROUPS else 16, shifts)
    sums = times * quants.reshape(len(x), -1, 16).sum(-1).reshape(*times.shape[:2], -1)
    sums = sums.astype(np.float32).reshape(len(x), -1, 2).sum(-1, dtype=np.float32)
    largest = np.maximum(np.abs(sums).max(-1), 1)
    of_sums = 2 ** np.maximum(np.floor(np.log2(largest / np.float32(32767))) + 1, 0)
    rounded, handed_on = np.empty_like(sums), np.zeros((4, len(x)))
    for g in range(sums.shape[1]):
        wanted = sums[:, g] + handed_on[g % 4]
        rounded[:, g] = np.floor((wanted + of_sums // 2) / of_sums)
        handed_on[g % 4] = wanted - of_sums * rounded[:, g]
    assert np.abs(rounded).max() < 2**15
    return (rounded * of_sums[:, None] - sums) * unit[:, 0].astype(np.float64)


def mins_of(tensor: Tensor) -> np.ndarray:
    """Of each group, (N, groups): what is left where all quants are zero."""
    blocks = tensor.data.reshape(-1, tensor.encoding.block_bytes).copy()
    blocks[:, 16:] = 0
    lowest = Tensor("w", tensor.shape, tensor.encoding, blocks.reshape(-1))
    return dequantize(lowest)[:, ::32].astype(np.float64)


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda e: e.label)
@pytest.mark.parametrize(("n", "width"), [(1, 512), (16, 512), (40, 512), (40, 77)])
def test_packing_keeps_every_value(encoding: Encoding, n: int, width: int) -> None:
    width = -(-width // encoding.block_values) * encoding.block_values
    tensor = random_tensor(encoding, n, width, seed=n)
    engine = _native.Engine(2, "")
    matrix = engine.add_matrix(TYPE_NUMBERS[encoding], tensor.data, n, width)
    np.testing.assert_array_equal(engine.unpack(matrix), dequantize(tensor))


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize(("encoding", "shifts", "width"), with_widths(PRODUCTS))
def test_the_product_equals_its_twin_in_float64(
    encoding: Encoding, shifts: bool, width: int, isa: str
) -> None:
    tensor = random_tensor(encoding, 40, width, seed=3)
    engine = _native.Engine(1, isa)
    matrix = engine.add_matrix(TYPE_NUMBERS[encoding], tensor.data, 40, width)
    x = np.random.default_rng(5).standard_normal((11, width)).astype(np.float32)
    expected, magnitude = twin_product(tensor, x, shifts)
    assert (np.abs(engine.product(matrix, x, shifts) - expected) <= 2e-6 * magnitude + 1e-12).all()


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize(
    ("encoding", "shifts"), [(e, s) for e, s in PRODUCTS if e in MULTIPLYING_SUMS], ids=str
)
def test_the_largest_sums_and_mins_fit_their_integers(encoding: Encoding, shifts: bool, isa: str) -> None:
    """All inputs alike, so that no sum can be larger, and every submin 63."""
    tensor = random_tensor(encoding, 40, 512, seed=4)
    tensor.data.reshape(-1, encoding.block_bytes)[:, 4:16] = 255
    engine = _native.Engine(1, isa)
    matrix = engine.add_matrix(TYPE_NUMBERS[encoding], tensor.data, 40, 512)
    x = np.tile(np.array([[1.0], [-1.0], [0.75]], np.float32), (6, 512))
    expected, magnitude = twin_product(tensor, x, shifts)
    assert (np.abs(engine.product(matrix, x, shifts) - expected) <= 2e-6 * magnitude).all()


@pytest.mark.parametrize("outlier", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("rest", ["normal", "ones"])
@pytest.mark.parametrize(
    ("encoding", "shifts"), [(e, s) for e, s in PRODUCTS if e in MULTIPLYING_SUMS], ids=str
)
def test_rounded_sums_cost_little_beside_rounded_inputs_where_one_stands_out(
    encoding: Encoding, shifts: bool, rest: str, outlier: float
) -> None:
    """Of inputs that are rounded alike but for their group, what comes to the sums is small beside it."""
    tensor = random_tensor(encoding, 64, 4096, seed=6)
    mins, weights = mins_of(tensor), dequantize(tensor).astype(np.float64)
    random = np.random.default_rng(7)
    x = (random.standard_normal((8, 4096)) if rest == "normal" else np.ones((8, 4096))).astype(np.float32)
    x[:, 5] = outlier
    lost_in_sums = sums_lost(x, encoding, shifts) @ mins.T
    lost_in_inputs = (as_seen(x, encoding, shifts) - x) @ weights.T
    assert np.sqrt((lost_in_sums**2).mean()) <= 0.1 * np.sqrt((lost_in_inputs**2).mean())


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize(("encoding", "shifts"), PRODUCTS, ids=PRODUCT_IDS)
def test_a_row_gives_the_same_bits_alone_and_among_others(encoding: Encoding, shifts: bool, isa: str) -> None:
    tensor = random_tensor(encoding, 100, 512, seed=7)
    engine = _native.Engine(1, isa)
    matrix = engine.add_matrix(TYPE_NUMBERS[encoding], tensor.data, 100, 512)
    x = np.random.default_rng(9).standard_normal((40, 512)).astype(np.float32)
    alone = np.concatenate([engine.product(matrix, x[row : row + 1], shifts) for row in range(40)])
    for n_rows in range(2, 41):
        for first in {0, (40 - n_rows) // 2, 40 - n_rows}:
            part = engine.product(matrix, np.ascontiguousarray(x[first : first + n_rows]), shifts)
            assert part.tobytes() == alone[first : first + n_rows].tobytes()


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize(
    ("encoding", "shifts"), [(e, shifts) for e, shifts in PRODUCTS if e.block_values == 256]
)
def test_many_rows_give_the_same_bits_where_scales_fill_their_scratch(
    encoding: Encoding, shifts: bool, isa: str
) -> None:
    """The scales of so wide a tile take most of the memory for them, so that its neighbour comes after it;
    those of the wider one are computed as for few rows."""
    for width in (17 * 1024, 33 * 1024):
        tensor = random_tensor(encoding, 32, width, seed=8)
        engine = _native.Engine(1, isa)
        matrix = engine.add_matrix(TYPE_NUMBERS[encoding], tensor.data, 32, width)
        x = np.random.default_rng(10).standard_normal((17, width)).astype(np.float32)
        together = engine.product(matrix, x, shifts)
        for row in (0, 7, 15, 16):
            alone = engine.product(matrix, x[row : row + 1], shifts)
            assert alone.tobytes() == together[row : row + 1].tobytes()


@pytest.mark.parametrize(("encoding", "shifts", "width"), with_widths(PRODUCTS))
def test_vector_instruction_sets_agree_to_the_bit(encoding: Encoding, shifts: bool, width: int) -> None:
    wide = [isa for isa in instruction_sets() if isa != "portable"]
    if "avx512" in wide:
        wide.append("avx512 without bf16")
    tensor = random_tensor(encoding, 48, width, seed=11)
    x = np.random.default_rng(13).standard_normal((21, width)).astype(np.float32)
    results = []
    for isa in wide:
        engine = _native.Engine(1, isa)
        matrix = engine.add_matrix(TYPE_NUMBERS[encoding], tensor.data, 48, width)
        results.append(engine.product(matrix, x, shifts))
    assert all(result.tobytes() == results[0].tobytes() for result in results)


@pytest.mark.parametrize("isa", instruction_sets())
def test_inputs_of_bfloat16_weights_are_rounded_to_nearest_with_ties_to_even(isa: str) -> None:
    """Numbers a bit below, on and above the middle between two neighbours, the largest, and no numbers."""
    middles = np.arange(0x3F808000, 0x3F828000, 0x8000, dtype=np.uint32)
    bits = np.concatenate(
        [middles - 1, middles, middles + 1, [0x7F7F7FFF, 0x7F7F8000, 0x7F800000, 0x7FFFFFFF]]
    )
    values = np.concatenate([bits, bits | 0x80000000]).astype(np.uint32).view(np.float32)
    engine = _native.Engine(1, isa)
    one = np.array([0x3F80], np.uint16).view(np.uint8)
    matrix = engine.add_matrix(TYPE_NUMBERS[Encoding.BF16], one, 1, 1)
    np.testing.assert_array_equal(engine.product(matrix, values[:, None])[:, 0], halved(values))


@pytest.mark.parametrize("isa", instruction_sets())
def test_extreme_activations_stay_finite(isa: str) -> None:
    tensor = random_tensor(Encoding.Q8_0, 16, 64, seed=1)
    engine = _native.Engine(1, isa)
    matrix = engine.add_matrix(TYPE_NUMBERS[Encoding.Q8_0], tensor.data, 16, 64)
    x = np.zeros((3, 64), np.float32)
    x[1] = 1e-42  # subnormal: rounds to a group of zeros
    x[2] = 1e30
    result = engine.product(matrix, x)
    assert np.isfinite(result).all()
    assert (result[0] == 0).all()


def test_a_matrix_that_does_not_fit_its_bytes_is_refused() -> None:
    engine = _native.Engine(1, "")
    with pytest.raises(ValueError, match="byte count"):
        engine.add_matrix(TYPE_NUMBERS[Encoding.Q8_0], np.zeros(33, np.uint8), 1, 32)
    with pytest.raises(ValueError, match="encoding or size"):
        engine.add_matrix(TYPE_NUMBERS[Encoding.Q4_K], np.zeros(144, np.uint8), 1, 32)
    with pytest.raises(ValueError, match="encoding or size"):
        engine.add_matrix(99, np.zeros(144, np.uint8), 1, 256)


def small_network(isa: str, encoding: Encoding) -> _native.Engine:
    """Embed to logits; one register holds all rows first, then the wanted ones."""
    engine = _native.Engine(2, isa)

    def matrix(n: int, seed: int) -> int:
        return engine.add_matrix(TYPE_NUMBERS[encoding], random_tensor(encoding, n, 64, seed).data, n, 64)

    embedding, weight = matrix(48, 1), engine.add_vector(np.ones(64, np.float32))
    x, normed, attended, wanted = (engine.add_register(64) for _ in range(4))
    q, k, v = engine.add_register(64), engine.add_register(32), engine.add_register(32)
    engine.embed(x, embedding, 1.0)
    engine.norm(normed, x, weight, 1e-5, 64, False)
    parts = ((q, 64), (k, 32), (v, 32))
    engine.linear(normed, [(matrix(n, out), -1, out, False) for out, n in parts], False)
    engine.attention(attended, q, k, v, 0, 4, 2, 0.25, 0.0, 0)
    engine.linear(attended, [(matrix(64, 9), -1, x, True)], False)
    engine.select(wanted, x)
    engine.norm(normed, wanted, weight, 1e-5, 64, True)
    engine.linear(normed, [(embedding, -1, -2, False)], True)
    engine.finish(48, 64, 1, 2, 16, 4, 16)
    return engine


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("encoding", [Encoding.Q8_0, Encoding.BF16], ids=lambda e: e.label)
def test_wanted_rows_have_the_bits_they_have_where_all_rows_are_wanted(encoding: Encoding, isa: str) -> None:
    engine = small_network(isa, encoding)

    def logits(*wanted: int) -> np.ndarray:
        arrays = (range(20), [0, 20], [0], [0, 1], [0, 2], wanted)
        return engine.forward(*(np.array(a, np.int32) for a in arrays))

    every_row = logits(*range(20))
    assert np.isfinite(every_row).all()
    for wanted in ([19], [3, 4], range(5, 14)):
        assert logits(*wanted).tobytes() == every_row[list(wanted)].tobytes()


def gated_network(isa: str, encoding: Encoding, together: bool) -> _native.Engine:
    """Gate and up, of a width that ends inside a tile, in one instruction or two, then logits."""
    engine = _native.Engine(2, isa)
    number, width = TYPE_NUMBERS[encoding], 296

    def matrix(n: int, k: int, seed: int) -> int:
        return engine.add_matrix(number, random_tensor(encoding, n, k, seed).data, n, k)

    x, normed = engine.add_register(64), engine.add_register(64)
    q, k, v, attended = (engine.add_register(16) for _ in range(4))
    gate, up, gated = (engine.add_register(width) for _ in range(3))
    engine.embed(x, matrix(48, 64, 1), 1.0)
    engine.norm(normed, x, engine.add_vector(np.ones(64, np.float32)), 1e-5, 64, False)
    engine.linear(normed, [(matrix(16, 64, out), -1, out, False) for out in (q, k, v)], False)
    engine.attention(attended, q, k, v, 0, 1, 1, 0.25, 0.0, 0)
    engine.linear(
        attended,
        [(engine.add_matrix(0, random_tensor(Encoding.F32, 64, 16, 5).data, 64, 16), -1, x, True)],
        False,
    )
    engine.norm(normed, x, engine.add_vector(np.ones(64, np.float32)), 1e-5, 64, False)
    parts = [(matrix(width, 64, 2), -1, gate, False), (matrix(width, 64, 3), -1, up, False)]
    for each in [parts] if together else [parts[:1], parts[1:]]:
        engine.linear(normed, each, False)
    engine.gated(gated, gate, up, False, False)
    wanted = engine.add_register(width)
    engine.select(wanted, gated)
    down = random_tensor(Encoding.F32, 48, width, 4)
    engine.linear(wanted, [(engine.add_matrix(0, down.data, 48, width), -1, -2, False)], True)
    engine.finish(48, 64, 1, 1, 16, 4, 16)
    return engine


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("encoding", [Encoding.Q4_1, Encoding.F16, Encoding.BF16], ids=lambda e: e.label)
def test_gating_where_gate_and_up_are_computed_changes_no_bit(encoding: Encoding, isa: str) -> None:
    apart, together = (gated_network(isa, encoding, together) for together in (False, True))
    for n_rows in (1, 2, 8, 20):
        plan = (range(n_rows), [0, n_rows], [0], [0, 1], [0, 2], range(n_rows))
        arrays = [np.array(each, np.int32) for each in plan]
        logits = together.forward(*arrays)
        assert np.abs(logits).max() > 0
        assert logits.tobytes() == apart.forward(*arrays).tobytes()


def test_matrices_are_packed_all_at_once_as_one_by_one() -> None:
    tensors = [random_tensor(kind, 40, 512, i) for i, kind in enumerate((Encoding.Q4_K, Encoding.F16))]
    engine = _native.Engine(3, "")
    planned = [engine.plan_matrix(TYPE_NUMBERS[t.encoding], t.data, 40, 512, False) for t in tensors]
    assert engine.pack() == -1
    assert engine.pack() == -1  # nothing is left
    for matrix, tensor in zip(planned, tensors, strict=True):
        alone = _native.Engine(1, "")
        expected = alone.unpack(alone.add_matrix(TYPE_NUMBERS[tensor.encoding], tensor.data, 40, 512))
        assert np.array_equal(engine.unpack(matrix), expected)


def test_packing_tells_the_first_matrix_that_holds_no_number() -> None:
    good, bad = np.zeros(64, np.float32), np.full(64, np.inf, np.float32)
    engine = _native.Engine(2, "")
    for values in (good, bad, good, bad):
        engine.plan_matrix(TYPE_NUMBERS[Encoding.F32], values.view(np.uint8), 1, 64, False)
    assert engine.pack() == 1
