"""A corrupt, hostile or foreign Hugging Face folder is refused with the file and the field."""

import json
import struct
import tracemalloc

import numpy as np
import pytest

from unspool.errors import ModelFileError, ModelNotFound, UnsupportedModel
from unspool.models.weights import json_file, open_weights
from unspool.models.weights.hf_names import CHECKPOINTS

WEIGHT = np.arange(4, dtype=np.float32)
NAME = "lm_head.weight"


def entry(**changes: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} | changes


def refusal(folder, kind=ModelFileError, path=None):
    """Open the folder; return the error, which must be one short line of bounded cost."""
    tracemalloc.start()
    try:
        with pytest.raises(kind) as caught:
            open_weights(path or folder.path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert message.startswith(str(folder.path))
    assert message.isprintable()
    assert len(message) < len(str(folder.path)) + 450
    return caught.value


def refused_header(folder, header: object, data: bytes = bytes(16)) -> ModelFileError:
    raw = header if isinstance(header, str | bytes) else json.dumps(header)
    path = folder.config("llama").path / "model.safetensors"
    path.write_bytes(folder.raw_safetensors(raw, data))
    error = refusal(folder)
    assert error.path == str(path)
    return error


# The folder.


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "model.pt", "model.ckpt"])
def test_a_folder_of_pickles_is_refused_with_the_reason_and_the_way_out(hf_folder, name):
    (hf_folder.path / name).write_bytes(b"PK\x03\x04")
    message = str(refusal(hf_folder))
    assert f"only {name}" in message
    assert "runs whatever code it holds" in message
    assert "save_pretrained" in message


def test_pickles_beside_safetensors_are_not_looked_at(hf_folder):
    (hf_folder.path / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    assert open_weights(hf_folder.config("llama").weights({NAME: WEIGHT}).path).names() == ("output.weight",)


@pytest.mark.parametrize("head", [b"\x80\x02\x8a", b"PK\x03\x04", b"version https://git-lfs"])
def test_a_pickle_or_pointer_named_safetensors_is_named(hf_folder, head):
    path = hf_folder.config("llama").path / "model.safetensors"
    path.write_bytes(head + bytes(100))
    for given in (hf_folder.path, path):
        assert refusal(hf_folder, path=given).field == "format"


def test_an_empty_folder_is_refused(hf_folder):
    assert "holds neither" in str(refusal(hf_folder))


def test_a_folder_of_gguf_files_points_at_one(hf_folder):
    (hf_folder.path / "small.gguf").write_bytes(b"GGUF")
    assert "small.gguf; give the path of that file" in str(refusal(hf_folder))


def test_several_files_without_an_index_are_refused(hf_folder):
    hf_folder.config("llama").weights({NAME: WEIGHT}, "a.safetensors").weights(
        {NAME: WEIGHT}, "b.safetensors"
    )
    assert "2 safetensors files but no model.safetensors.index.json" in str(refusal(hf_folder))


def test_a_missing_config_is_named(hf_folder):
    hf_folder.weights({NAME: WEIGHT})
    assert refusal(hf_folder).field == "config.json"


@pytest.mark.parametrize("config", ["", "{", "[]", "3", "null", "[" * 100_000, "\xff", '{"model_type": "ll'])
def test_a_config_that_is_no_json_object_is_refused(hf_folder, config):
    hf_folder.weights({NAME: WEIGHT})
    (hf_folder.path / "config.json").write_bytes(config.encode("latin-1"))
    assert refusal(hf_folder).path.endswith("config.json")


@pytest.mark.parametrize("model_type", [None, 3, [], {"a": 1}])
def test_a_model_type_that_is_no_string_is_refused(hf_folder, model_type):
    assert refusal(hf_folder.config(model_type).weights({NAME: WEIGHT})).field == "model_type"


def test_another_model_type_is_refused_by_name_with_the_choices(hf_folder):
    message = str(refusal(hf_folder.config("mamba").weights({NAME: WEIGHT}), UnsupportedModel))
    assert "model_type is mamba" in message
    assert ", ".join(CHECKPOINTS) in message


def test_weights_quantized_for_another_engine_are_refused(hf_folder):
    hf_folder.config("llama", quantization_config={"quant_method": "gptq"}).weights({NAME: WEIGHT})
    assert "quantization_config" in str(refusal(hf_folder, UnsupportedModel))


def test_json_has_a_size_limit(hf_folder, monkeypatch):
    monkeypatch.setattr(json_file, "MAX_JSON_BYTES", 10)
    assert "10 at most" in str(refusal(hf_folder.config("llama").weights({NAME: WEIGHT})))


# The index.


@pytest.mark.parametrize("weight_map", [None, {}, [], "model.safetensors"])
def test_an_index_without_a_weight_map_is_refused(hf_folder, weight_map):
    assert refusal(hf_folder.config("llama").index(weight_map)).field == "weight_map"


@pytest.mark.parametrize(
    "file_name",
    ["../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "a\\b.safetensors", "x.bin", "", 3, None,
     "a\0.safetensors", "\ud800.safetensors", "x" * 300 + ".safetensors", "..", ["a"]],
)  # fmt: skip
def test_an_index_that_reaches_for_other_files_is_refused(hf_folder, file_name):
    (hf_folder.path.parent / "x.safetensors").write_bytes(hf_folder.safetensors_bytes({NAME: WEIGHT}))
    error = refusal(hf_folder.config("llama").index({NAME: file_name}))
    assert error.field == f"weight_map of {NAME}"


def test_a_missing_shard_is_named(hf_folder):
    error = refusal(hf_folder.config("llama").index({NAME: "model-00001-of-00002.safetensors"}))
    assert "names model-00001-of-00002.safetensors, which is not there" in str(error)


def test_a_tensor_that_its_shard_lacks_is_named(hf_folder):
    hf_folder.config("llama").weights({NAME: WEIGHT}, "a.safetensors")
    error = refusal(hf_folder.index({NAME: "a.safetensors", "model.norm.weight": "a.safetensors"}))
    assert error.field == "tensor model.norm.weight"


def test_one_shard_of_several_is_no_model(hf_folder):
    hf_folder.config("llama").weights({NAME: WEIGHT}, "a.safetensors").weights({"x": WEIGHT}, "b.safetensors")
    hf_folder.index({NAME: "a.safetensors", "x": "b.safetensors"})
    assert "one of 2 shards" in str(refusal(hf_folder, path=hf_folder.path / "a.safetensors"))


# The header.


@pytest.mark.parametrize("length", [17, 1 << 31, 1 << 40, 1 << 63, (1 << 64) - 1])
def test_a_header_longer_than_the_file_is_refused(hf_folder, length):
    path = hf_folder.config("llama").path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + bytes(16))
    assert refusal(hf_folder).field == "header length"


def test_a_file_too_short_for_a_header_is_refused(hf_folder):
    (hf_folder.config("llama").path / "model.safetensors").write_bytes(b"\1\2\3")
    assert refusal(hf_folder).field == "header length"


@pytest.mark.parametrize(
    "header",
    ["", "{", "[]", b"\xff\xfe{\0}\0", "[" * 50_000, '{"a":' * 50_000, '{"a": 1' + "0" * 5000 + "}", "nul"],
)
def test_a_header_that_is_no_json_object_is_refused(hf_folder, header):
    assert refused_header(hf_folder, header).field == "header"


def test_a_header_with_a_name_twice_is_refused(hf_folder):
    item = json.dumps(entry())
    error = refused_header(hf_folder, f'{{"{NAME}": {item}, "{NAME}": {item}}}')
    assert f"the key {NAME} twice" in str(error)


def test_a_tensor_without_a_name_is_refused(hf_folder):
    assert refused_header(hf_folder, {"": entry()}).field == "header"


@pytest.mark.parametrize("item", [None, 3, [], "F32"])
def test_an_entry_that_is_no_object_is_refused(hf_folder, item):
    assert refused_header(hf_folder, {NAME: item}).field == f"tensor {NAME}"


@pytest.mark.parametrize("dtype", [None, "F31", "", 32, ["F32"], "x" * 1000])
def test_a_dtype_nobody_knows_is_refused(hf_folder, dtype):
    assert refused_header(hf_folder, {NAME: entry(dtype=dtype)}).field == f"tensor {NAME} dtype"


@pytest.mark.parametrize(
    "shape", [None, 4, [-4], [4, 0], [4.0], [True], ["4"], [1 << 63], [1] * 9, [[4]], [None], {"0": 4}]
)
def test_a_shape_that_is_none_is_refused(hf_folder, shape):
    assert refused_header(hf_folder, {NAME: entry(shape=shape)}).field == f"tensor {NAME} shape"


@pytest.mark.parametrize(
    "offsets",
    [None, [0], [0, 16, 32], [-16, 0], [0.0, 16.0], [16, 0], [0, 15], [0, 1 << 64], ["0", "16"], "0,16", 16,
     [False, 16]],
)  # fmt: skip
def test_offsets_that_do_not_fit_the_shape_are_refused(hf_folder, offsets):
    error = refused_header(hf_folder, {NAME: entry(data_offsets=offsets)})
    assert error.field == f"tensor {NAME} data_offsets"


def test_a_shape_whose_product_overflows_is_refused(hf_folder):
    item = entry(shape=[(1 << 63) - 1] * 8)
    assert refused_header(hf_folder, {NAME: item}).field == f"tensor {NAME} data_offsets"


def test_data_cut_short_is_refused(hf_folder):
    assert "cut off" in str(refused_header(hf_folder, {NAME: entry()}, bytes(15)))


def test_data_that_belongs_to_no_tensor_is_refused(hf_folder):
    assert refused_header(hf_folder, {NAME: entry()}, bytes(20)).field == "data"
    assert refused_header(hf_folder, {}, bytes(20)).field == "data"
    gap = refused_header(hf_folder, {NAME: entry(data_offsets=[4, 20])}, bytes(20))
    assert gap.field == f"tensor {NAME} data_offsets"


def test_tensors_that_share_data_are_refused(hf_folder):
    error = refused_header(hf_folder, {NAME: entry(), "model.norm.weight": entry()})
    assert error.field == "tensor model.norm.weight data_offsets"


# Names and dtypes.


@pytest.mark.parametrize("dtype", ["F64", "F8_E4M3", "I32", "U8", "BOOL"])
def test_dtypes_that_are_not_read_are_refused_by_name(hf_folder, dtype):
    n_bytes = {"F64": 32, "I32": 16}.get(dtype, 4)
    header = json.dumps({NAME: entry(dtype=dtype, data_offsets=[0, n_bytes])})
    path = hf_folder.config("llama").path / "model.safetensors"
    path.write_bytes(hf_folder.raw_safetensors(header, bytes(n_bytes)))
    assert f"tensor {NAME} is stored as {dtype}" in str(refusal(hf_folder, UnsupportedModel))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("llama", "model.layers.0.self_attn.q_proj.qweight"),
        ("llama", "model.layers.0.self_attn.q_proj.lora_A.weight"),
        ("llama", "model.layers.0.self_attn.q_norm.weight"),
        ("llama", "model.layers.0.input_layernorm.bias"),
        ("llama", "model.layers.0.block_sparse_moe.gate.weight"),
        ("llama", "model.layers.00.self_attn.q_proj.weight"),
        ("llama", "model.layers.99999.self_attn.q_proj.weight"),
        ("llama", "vision_tower.x.weight"),
        ("phi3", "model.layers.0.self_attn.q_proj.weight"),
        ("mistral", "layers.0.attention.wq.weight"),
        ("llama", "model.\x1b[31m"),
    ],
)
def test_a_weight_without_a_place_is_refused_and_not_ignored(hf_folder, family, name):
    message = str(refusal(hf_folder.config(family).weights({name: WEIGHT}), UnsupportedModel))
    assert f"has no place in a {family} model" in message


def test_one_weight_under_two_names_is_refused(hf_folder):
    hf_folder.config("llama").weights({"model.norm.weight": WEIGHT, "norm.weight": WEIGHT})
    assert "is the same weight as model.norm.weight" in str(refusal(hf_folder))


def test_a_lone_file_without_its_config_is_refused(hf_folder):
    path = hf_folder.weights({NAME: WEIGHT}).path / "model.safetensors"
    assert refusal(hf_folder, path=path).field == "config.json"


def test_a_file_that_vanished_is_not_found(tmp_path):
    with pytest.raises(ModelNotFound):
        json_file.read_json_object(tmp_path / "config.json")
