"""Float weights quantized as they are loaded."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, DecodingParams
from unspool.errors import BadRequest
from unspool.loading import open_model
from unspool.models.identity import identify
from unspool.models.quantize_file import quantize_file
from unspool.models.weights import Encoding, dequantize
from unspool.models.weights.quantized_source import QuantizedSource

ASKED = DecodingParams(temperature=0.0, max_tokens=12, logprobs=2, ignore_eos=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf", width=64, ffn_width=80)


def answer(*args, **kwargs):
    with LLM(*args, **kwargs) as llm:
        completion = llm.generate("hello", ASKED)
        return completion.token_ids, completion.logprobs, llm.runner.weight_bytes


def test_weights_quantized_on_load_answer_as_the_file_that_was_written_with_them(model, tmp_path):
    for setting, kind in (("q8", "q8_0"), ("q4", "q4_1")):
        written = quantize_file(model, tmp_path / f"{kind}.gguf", kind).path
        assert answer(model, weights=setting) == answer(written)
    assert answer(model, weights="q4")[2] < answer(model, weights="q8")[2] < answer(model)[2]


def test_the_answer_depends_on_no_number_of_threads(model):
    assert answer(model, weights="q4", threads=1) == answer(model, weights="q4", threads=3)


def test_the_reference_runner_sees_the_same_quantized_values(model):
    with closing(open_model(model, "q4")) as loaded, closing(open_model(model)) as plain:
        name = "blk.1.ffn_up.weight"
        assert loaded.source.tensor(name).encoding is Encoding.Q4_1
        assert loaded.source.tensor("token_embd.weight").encoding is Encoding.Q8_0
        stays = "blk.0.ffn_down.weight"  # rows of 80 divide into no block
        assert loaded.source.tensor(stays).encoding is Encoding.F32
        assert loaded.source.tensor("output_norm.weight").encoding is Encoding.F32
        error = dequantize(loaded.source.tensor(name)) - dequantize(plain.source.tensor(name))
        assert 0 < np.abs(error).max() < 0.15


def test_what_was_quantized_is_dropped_when_it_is_packed_and_made_again_when_asked_for(model):
    with closing(open_model(model, "q8")) as loaded:
        source = loaded.source
        assert isinstance(source, QuantizedSource)
        first = source.tensor("blk.0.attn_q.weight")
        assert source.tensor("blk.0.attn_q.weight") is first
        loaded.forget_quantized()
        again = source.tensor("blk.0.attn_q.weight")
        assert again is not first
        assert again.data.tobytes() == first.data.tobytes()
        assert "blk.0.attn_q.weight" in source
        assert source.names()


def test_each_setting_is_another_model_to_a_kept_cache(model):
    seen = set()
    for setting in (None, "q8", "q4"):
        with closing(open_model(model, setting)) as loaded:
            seen.add(identify(loaded.graph, loaded.source).sha256)
    assert len(seen) == 3


def test_an_unknown_setting_and_a_model_that_is_quantized_already_are_refused(model, tmp_path):
    for wrong in ("q5", "", 4, ["q4"]):
        with pytest.raises(BadRequest, match="weights must be one of q8, q4, got") as caught:
            LLM(model, weights=wrong)
        assert caught.value.code == "bad_weights"
    written = quantize_file(model, tmp_path / "out.gguf", "q8_0").path
    with pytest.raises(BadRequest, match="is quantized already, as Q8_0; leave weights out"):
        LLM(written, weights="q4")
