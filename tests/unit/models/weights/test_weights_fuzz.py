"""Whatever is done to a weights file, opening it gives a sound source or a typed error, at bounded cost."""

import itertools
import json
import random
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.models.weights import dequantize, open_weights

MAX_BYTES = 8 << 20  # what opening and reading a file of a few kilobytes may take
EXTREMES = [
    *(struct.pack("<I", value) for value in (0, 1, 2, 9, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)),
    *(
        struct.pack("<Q", value)
        for value in (0, 1 << 31, 1 << 40, 1 << 60, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)
    ),
]


def refused(path: Path) -> str | None:
    """Open a source and touch everything in it; the message when that ended in a typed error."""
    try:
        with open_weights(path) as source:
            for value in source.metadata.values():
                if not isinstance(value, str | int | float):
                    list(value)
            for name in source.names():
                tensor = source.tensor(name)
                assert dequantize(tensor).shape == tensor.shape
                assert name in source
    except (ModelFileError, UnsupportedModel) as error:
        return str(error)
    return None


def try_all(path: Path, variants) -> tuple[int, int]:
    """Open every variant of the file's bytes; return how many were sound and how many refused."""
    counts = [0, 0]
    tracemalloc.start()
    try:
        for variant in variants:
            path.write_bytes(variant)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            message = refused(path)
            assert message is None or message.isprintable()
            counts[message is not None] += 1
            assert tracemalloc.get_traced_memory()[1] - before < MAX_BYTES
    finally:
        tracemalloc.stop()
    return counts[0], counts[1]


def flipped(data: bytes, n_header: int):
    for position in range(n_header):
        for byte in (data[position] ^ 0xFF, data[position] ^ 1, 0):
            yield data[:position] + bytes([byte]) + data[position + 1 :]


def overwritten(data: bytes, n_header: int):
    for position, extreme in itertools.product(range(0, n_header, 3), EXTREMES):
        yield data[:position] + extreme + data[position + len(extreme) :]


def scrambled(data: bytes, n_header: int, n_variants: int, seed: int):
    """Several faults at once: bytes changed, pieces removed, doubled or moved."""
    draw = random.Random(seed)
    for _ in range(n_variants):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 6)):
            start = draw.randrange(n_header)
            stop = start + draw.randint(1, 24)
            kind = draw.randrange(4)
            if kind == 0:
                changed[start:stop] = draw.randbytes(stop - start)
            elif kind == 1:
                del changed[start:stop]
            elif kind == 2:
                changed[start:start] = changed[start:stop]
            else:
                changed[start : start + 8] = draw.choice(EXTREMES)
        yield bytes(changed)


@pytest.fixture
def gguf_bytes(gguf_writer) -> bytes:
    """A small file with one of each kind of thing."""
    for kind, letter in ((4, "I"), (6, "f"), (12, "d")):
        gguf_writer.pair(f"k{kind}", struct.pack("<I" + letter, kind, 3))
    gguf_writer.pair("s", struct.pack("<IQ", 8, 5) + b"llama")
    gguf_writer.pair("general.alignment", struct.pack("<II", 4, 32))
    gguf_writer.pair(
        "t", struct.pack("<IIQ", 9, 8, 2) + struct.pack("<Q", 1) + b"a" + struct.pack("<Q", 2) + b"\xc3\xbc"
    )
    gguf_writer.pair("n", struct.pack("<IIQ", 9, 5, 3) + bytes(12))
    gguf_writer.pair("d", struct.pack("<IIQIQ", 9, 9, 1, 0, 2) + b"ab")
    gguf_writer.tensor("a.weight", (32, 2), 2, bytes(range(36)))
    gguf_writer.tensor("b.weight", (4,), 0, bytes(16))
    return gguf_writer.bytes()


@pytest.fixture
def safetensors_folder(hf_folder):
    hf_folder.config("gemma2")
    hf_folder.weights(
        {
            "model.embed_tokens.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
            "model.norm.weight": np.ones(3, dtype=np.float16),
            "model.layers.0.self_attn.q_proj.weight": np.ones((2, 2), dtype=np.uint16),
        }
    )
    return hf_folder


def test_a_gguf_file_cut_at_every_byte_is_refused(tmp_path, gguf_bytes):
    path = tmp_path / "model.gguf"
    counts = try_all(path, (gguf_bytes[:n] for n in range(len(gguf_bytes))))
    assert counts == (0, len(gguf_bytes))


@pytest.mark.parametrize("mutate", [flipped, overwritten])
def test_a_gguf_file_with_a_wrong_byte_or_number_anywhere_is_read_or_refused(tmp_path, gguf_bytes, mutate):
    n_header = len(gguf_bytes) - 80  # two tensors: 36 bytes, padding to 64, 16 bytes
    n_sound, n_refused = try_all(tmp_path / "model.gguf", mutate(gguf_bytes, n_header))
    assert n_sound > 50  # a changed value or letter is another sound file
    assert n_refused > 500


@pytest.mark.parametrize("seed", range(3))
def test_a_gguf_file_with_several_faults_is_read_or_refused(tmp_path, gguf_bytes, seed):
    variants = scrambled(gguf_bytes, len(gguf_bytes) - 80, 500, seed)
    assert sum(try_all(tmp_path / "model.gguf", variants)) == 500


@pytest.mark.parametrize("file_name", ["model.safetensors", "config.json"])
def test_a_safetensors_folder_cut_at_every_byte_is_refused(safetensors_folder, file_name):
    path = safetensors_folder.path / file_name
    data = path.read_bytes()
    for n_bytes in range(len(data)):
        path.write_bytes(data[:n_bytes])
        assert str(path) in (refused(safetensors_folder.path) or ""), n_bytes


@pytest.mark.parametrize("mutate", [flipped, overwritten])
def test_a_safetensors_file_with_a_wrong_byte_or_number_anywhere_is_read_or_refused(
    safetensors_folder, mutate
):
    path = safetensors_folder.path / "model.safetensors"
    data = path.read_bytes()
    n_sound, n_refused = try_all(path, mutate(data, len(data) - 38))
    assert n_sound > 0 or mutate is overwritten  # letters of "__metadata__"
    assert n_refused > 500


@pytest.mark.parametrize("seed", range(2))
def test_a_safetensors_file_with_several_faults_is_read_or_refused(safetensors_folder, seed):
    path = safetensors_folder.path / "model.safetensors"
    data = path.read_bytes()
    variants = list(scrambled(data, len(data) - 38, 300, seed))
    assert sum(try_all(path, variants)) == 300
    # The header keeps its true length, so that the damage reaches the JSON and not only the length.
    lengthened = (
        struct.pack("<Q", max(len(v) - 46, 0)) + v[8:]
        for v in scrambled(data, len(data) - 38, 300, seed + 100)
    )
    assert sum(try_all(path, lengthened)) == 300


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=400), version=st.sampled_from([2, 3]))
def test_noise_after_the_magic_is_refused_unless_it_promises_nothing(tmp_path_factory, data, version):
    path = tmp_path_factory.mktemp("noise") / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", version) + data)
    message = refused(path)
    assert message is None or data[:16] != bytes(16)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "a"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(header=st.dictionaries(st.sampled_from(["lm_head.weight", "__metadata__", "x"]), JSON, max_size=3))
def test_a_header_of_any_json_is_read_or_refused(tmp_path_factory, header):
    folder = tmp_path_factory.mktemp("folder")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    assert refused(folder)
