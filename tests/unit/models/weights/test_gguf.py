"""What a sound GGUF file gives."""

import gguf
import numpy as np
import pytest

from unspool.errors import UnsupportedModel
from unspool.models.weights import Encoding, dequantize, open_weights


def test_every_kind_of_value_is_read(small_gguf):
    metadata = open_weights(small_gguf.write()).metadata
    assert metadata["general.architecture"] == "llama"
    for kind in ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "u64", "i64", "f64"):
        assert metadata[f"one.{kind}"] == 7
        assert metadata[f"many.{kind}"].tolist() == [0, 1, 2, 3, 4]
    assert type(metadata["one.u32"]) is int
    assert type(metadata["one.f32"]) is float
    assert metadata["one.bool"] is True
    assert metadata["many.bool"].tolist() == [True, False, True]
    assert metadata["many.string"] == ["a", "", "für"]
    assert [item.tolist() for item in metadata["many.array"]] == [[5, 6], [5, 6]]
    assert len(metadata["none.string"]) == 0


def test_number_arrays_are_read_only_views(small_gguf):
    array = open_weights(small_gguf.write()).metadata["many.f32"]
    assert array.dtype == np.float32
    assert not array.flags.writeable


def test_a_string_array_behaves_like_a_list(small_gguf):
    strings = open_weights(small_gguf.write()).metadata["many.string"]
    assert list(strings) == ["a", "", "für"]
    assert strings[0] == "a"
    assert strings[-1] == "für"
    assert strings[1:] == ["", "für"]
    assert strings == ("a", "", "für")
    assert strings != ["a", "", "fur"]
    assert strings != 3
    assert "für" in strings
    assert "3 strings" in repr(strings)
    with pytest.raises(IndexError):
        strings[3]


def test_shapes_are_row_major_and_values_are_the_stored_ones(small_gguf):
    source = open_weights(small_gguf.write())
    assert source.format == "gguf"
    assert source.names() == ("a.weight", "b.weight")
    tensor = source.tensor("a.weight")
    assert (tensor.name, tensor.shape, tensor.encoding) == ("a.weight", (2, 32), Encoding.F32)
    np.testing.assert_array_equal(dequantize(tensor), np.arange(64).reshape(2, 32))
    assert source.tensor("b.weight").encoding is Encoding.Q8_0
    assert "a.weight" in source
    assert "c.weight" not in source


def test_a_tensor_that_is_not_there_is_named(small_gguf):
    source = open_weights(small_gguf.write())
    with pytest.raises(UnsupportedModel, match=r"model\.gguf: has no tensor output\.weight"):
        source.tensor("output.weight")


def test_version_two_is_read(small_gguf):
    small_gguf.version = b"\2\0\0\0"
    assert len(open_weights(small_gguf.write()).names()) == 2


def test_a_vocabulary_without_tensors_is_read(gguf_writer):
    gguf_writer.alignment = 1  # such files end with the header, without padding
    assert open_weights(gguf_writer.write()).names() == ()


def test_a_tensor_outlives_its_source(small_gguf):
    with open_weights(small_gguf.write()) as source:
        tensor = source.tensor("a.weight")
    source.close()  # twice does no harm
    assert dequantize(tensor)[1, 31] == 63
    assert source.metadata["many.string"][2] == "für"
    with pytest.raises(ValueError, match="closed"):
        source.tensor("a.weight")


def test_another_alignment_is_followed(gguf_writer):
    gguf_writer.alignment = 64
    gguf_writer.pair("general.alignment", b"\4\0\0\0\x40\0\0\0")
    gguf_writer.tensor("a", (3,), 0, np.float32([1, 2, 3]).tobytes())
    gguf_writer.tensor("b", (2,), 0, np.float32([4, 5]).tobytes())
    source = open_weights(gguf_writer.write())
    assert dequantize(source.tensor("b")).tolist() == [4, 5]


def test_a_file_written_by_the_gguf_package_is_read(tmp_path):
    path = tmp_path / "written.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(2048)
    writer.add_token_list(["<s>", "Ġthe", "日本"])
    writer.add_token_scores([0.0, -1.5, -2.5])
    weights = np.random.default_rng(0).normal(size=(8, 256)).astype(np.float32)
    writer.add_tensor("output_norm.weight", weights[0])
    q4_0 = gguf.quants.quantize(weights, gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("output.weight", q4_0, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_weights(path) as source:
        assert source.metadata["general.architecture"] == "qwen2"
        assert source.metadata["qwen2.context_length"] == 2048
        assert source.metadata["tokenizer.ggml.tokens"] == ["<s>", "Ġthe", "日本"]
        assert source.metadata["tokenizer.ggml.scores"].tolist() == [0.0, -1.5, -2.5]
        np.testing.assert_array_equal(dequantize(source.tensor("output_norm.weight")), weights[0])
        expected = gguf.quants.dequantize(q4_0, gguf.GGMLQuantizationType.Q4_0)
        np.testing.assert_array_equal(dequantize(source.tensor("output.weight")), expected)
