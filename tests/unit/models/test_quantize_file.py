"""Writing a smaller GGUF file: what is kept, what changes, who reads it, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, DecodingParams
from unspool.errors import BadRequest, ModelFileError
from unspool.models.quantize_file import KINDS, quantize_file
from unspool.models.weights import Encoding, dequantize, open_weights
from unspool.models.weights.quantize import RELATIVE_ERROR


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf", width=256, ffn_width=512)


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_keeps_metadata_and_vectors_and_is_near_in_its_matrices(kind, model, tmp_path):
    told = quantize_file(model, tmp_path / "out.gguf", kind)
    changed = {"general.file_type", "general.quantization_version"}
    with open_weights(model) as before, open_weights(told.path) as after:
        assert after.names() == before.names()
        assert {k: repr(v) for k, v in after.metadata.items() if k not in changed} == (
            {k: repr(v) for k, v in before.metadata.items() if k not in changed}
        )
        for name in before.names():
            old, new = before.tensor(name), after.tensor(name)
            if len(old.shape) == 1:
                assert (new.encoding, new.data.tobytes()) == (old.encoding, old.data.tobytes())
                continue
            values = dequantize(old)
            error = np.sqrt(((dequantize(new) - values) ** 2).mean() / (values**2).mean())
            assert error <= 1.03 * RELATIVE_ERROR.get(new.encoding, 0.0)  # so few values scatter
    assert told.bytes_after == told.path.stat().st_size
    assert told.bytes_before == model.stat().st_size
    assert kind == "f32" or told.bytes_after < told.bytes_before
    assert not told.again


@pytest.mark.parametrize("kind", ["q4_k", "q8_0"])
def test_the_gguf_package_reads_the_file_and_its_values(kind, model, tmp_path):
    told = quantize_file(model, tmp_path / "out.gguf", kind)
    reader = gguf.GGUFReader(str(told.path))
    assert reader.fields["general.file_type"].contents() == KINDS[kind].file_type
    assert reader.fields["general.architecture"].contents() == "llama"
    with open_weights(told.path) as ours:
        for tensor in reader.tensors:
            theirs = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            np.testing.assert_array_equal(dequantize(ours.tensor(tensor.name)), theirs)


def test_embedding_and_output_keep_more_bits(model, tmp_path):
    for kind, inner, outer in (("q4_k", "Q4_K", "Q6_K"), ("q4_1", "Q4_1", "Q8_0")):
        with open_weights(quantize_file(model, tmp_path / f"{kind}.gguf", kind).path) as source:
            assert source.tensor("token_embd.weight").encoding.label == outer
            assert source.tensor("blk.0.ffn_up.weight").encoding.label == inner


def test_rows_that_are_no_multiple_of_256_take_a_kind_of_32_and_others_stay(tmp_path):
    model = write_tiny_llm(tmp_path / "tiny.gguf", width=64, ffn_width=80)
    with open_weights(quantize_file(model, tmp_path / "out.gguf", "q5_k").path) as source:
        encodings = {name: source.tensor(name).encoding for name in source.names()}
    assert encodings["blk.0.ffn_up.weight"] is Encoding.Q5_1
    assert encodings["token_embd.weight"] is Encoding.Q8_0
    assert encodings["blk.0.ffn_down.weight"] is Encoding.F32  # rows of 80


def test_a_file_that_was_quantized_before_is_quantized_again_and_said_to_be(model, tmp_path):
    once = quantize_file(model, tmp_path / "once.gguf", "q8_0")
    twice = quantize_file(once.path, tmp_path / "twice.gguf", "q4_0")
    assert not once.again
    assert twice.again
    assert twice.bytes_after < once.bytes_after


def test_the_quantized_model_answers(model, tmp_path):
    told = quantize_file(model, tmp_path / "out.gguf", "q8_0")
    with LLM(model) as before, LLM(told.path) as after:
        asked = DecodingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
        assert (
            len(after.generate("abc", asked).token_ids) == len(before.generate("abc", asked).token_ids) == 4
        )


def test_an_existing_file_is_left_alone_unless_it_may_be_replaced(model, tmp_path):
    out = tmp_path / "out.gguf"
    out.write_text("mine")
    with pytest.raises(BadRequest, match="is there already; give another name, or --force"):
        quantize_file(model, out, "q8_0")
    assert out.read_text() == "mine"
    quantize_file(model, out, "q8_0", replace=True)
    assert out.read_bytes()[:4] == b"GGUF"
    with pytest.raises(BadRequest, match="is the model itself"):
        quantize_file(out, out, "q4_0", replace=True)


def test_what_makes_no_sense_is_refused_before_anything_is_written(model, tmp_path):
    with pytest.raises(BadRequest, match=r"kind must be one of q4_0, .* got 'q3'"):
        quantize_file(model, tmp_path / "out.gguf", "q3")
    with pytest.raises(BadRequest, match="there is no folder"):
        quantize_file(model, tmp_path / "no" / "out.gguf", "q8_0")
    with pytest.raises(BadRequest, match="is a folder"):
        quantize_file(model, tmp_path, "q8_0")
    with pytest.raises(BadRequest, match="no file can be named so"):
        quantize_file(model, tmp_path / "a\0b", "q8_0")
    with pytest.raises(BadRequest, match=r"threads must be a whole number in \[1, 256\], got 0"):
        quantize_file(model, tmp_path / "out.gguf", "q8_0", n_threads=0)
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_leaves_nothing_behind(model, tmp_path, monkeypatch):
    def no_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(ModelFileError, match="cannot be written: No space left on device"):
        quantize_file(model, tmp_path / "out.gguf", "q8_0")
    assert os.listdir(tmp_path) == []
