"""A Hugging Face folder in the terms of GGUF: the same network, the same tokenizer, or a refusal."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from executing import logits_whole, reference_runner
from hf_models import HF_CASES, RECORDED, case_tokens, case_weights, write_case, write_hf_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import CONFIG, MARKED_CONFIG, byte_level_pipeline, marked_pipeline, tiny_pipeline
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Pipeline

from unspool import LLM, DecodingParams
from unspool.errors import BadRequest, ModelFileError, UnsupportedModel
from unspool.models.config import read_config
from unspool.models.conversion import ConvertedFolder
from unspool.models.conversion.network import check_same
from unspool.models.conversion.words_check import check_same_words
from unspool.models.quantize_file import quantize_file
from unspool.models.tokenizer import Tokenizer, load_tokenizer
from unspool.models.tokenizer.pre_tokenizers import WORD_RULES
from unspool.models.tokenizer.tokenizer_json import tokenizer_parts
from unspool.models.weights import Encoding, dequantize, open_weights

TOLD = [case for case in HF_CASES if case.name != "llama-yarn-tuned"]
REFUSED = next(case for case in HF_CASES if case.name == "llama-yarn-tuned")
LLAMA3_WORDS = WORD_RULES["llama-bpe"].expressions[0]


def write_llama(folder: Path, pipeline: Pipeline, config: dict[str, Any], **more: Any) -> Path:
    """A model of one layer with the vocabulary of a pipeline, and what else its files say."""
    n_tokens = pipeline.get_vocab_size()
    sizes = {
        "model_type": "llama",
        "vocab_size": n_tokens,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
    } | more
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (sizes["vocab_size"], 64)}
    for name, rows in (("q", 64), ("k", 32), ("v", 32), ("o", 64)):
        shapes[f"model.layers.0.self_attn.{name}_proj.weight"] = (rows, 64)
    for name, shape in (("gate", (96, 64)), ("up", (96, 64)), ("down", (64, 96))):
        shapes[f"model.layers.0.mlp.{name}_proj.weight"] = shape
    for name in ("layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"):
        shapes[f"model.{name}.weight"] = (64,)
    write_hf_folder(folder, sizes, case_weights(shapes, "llama"))
    pipeline.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def llama3_pipeline() -> Pipeline:
    pipeline = byte_level_pipeline()
    model = json.loads(pipeline.model.__getstate__()) | {"ignore_merges": True}
    pipeline.model = models.BPE(
        model["vocab"], [tuple(merge) for merge in model["merges"]], ignore_merges=True
    )
    pipeline.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return pipeline


def digits_pipeline() -> Pipeline:
    """Like SmolLM2."""
    pipeline = byte_level_pipeline()
    pipeline.normalizer = None
    pipeline.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return pipeline


PIPELINES = {
    "llama-bpe": (llama3_pipeline, CONFIG),
    "smollm": (digits_pipeline, CONFIG),
    "legacy": (lambda: marked_pipeline("legacy"), MARKED_CONFIG),
    "first": (lambda: marked_pipeline("first"), MARKED_CONFIG),
    "always": (lambda: marked_pipeline("always"), MARKED_CONFIG),
    "none": (lambda: marked_pipeline("none"), MARKED_CONFIG),
}


@pytest.mark.parametrize("case", TOLD, ids=lambda case: case.name)
def test_the_network_has_the_recorded_logits(case, tmp_path):
    record = json.loads((RECORDED / f"{case.name}.json").read_text())
    tokens = case_tokens(case)
    with open_weights(write_case(tmp_path, case)) as folder:
        source = ConvertedFolder(folder)
        logits = logits_whole(reference_runner(source, len(tokens)), tokens)
    for position, expected in record["logits"].items():
        np.testing.assert_allclose(logits[int(position)], expected, atol=1e-4)


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.0.mlp.down_proj.weight"])
def test_values_that_are_no_numbers_are_refused_also_where_they_would_stay_as_they_are(name, tmp_path):
    folder = write_llama(tmp_path / "model", llama3_pipeline(), CONFIG)
    path = folder / "model.safetensors"
    stored = bytearray(path.read_bytes())
    n_header = int.from_bytes(stored[:8], "little")
    start = 8 + n_header + json.loads(stored[8 : 8 + n_header])[name]["data_offsets"][0]
    stored[start : start + 4] = np.float32(np.nan).tobytes()
    path.write_bytes(stored)
    with pytest.raises(ModelFileError, match="values: are infinite or not numbers; fetch"):
        quantize_file(folder, tmp_path / "out.gguf", "f32")
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("case", TOLD, ids=lambda case: case.name)
def test_the_written_file_holds_the_folder_s_values(case, tmp_path):
    folder = write_case(tmp_path / "model", case)
    written = quantize_file(folder, tmp_path / "out.gguf", "q8_0")
    assert written.bytes_before == (folder / "model.safetensors").stat().st_size
    with open_weights(folder) as of_folder, open_weights(written.path) as source:
        converted = ConvertedFolder(of_folder)
        assert set(source.names()) == set(converted.names())
        for name in source.names():
            own, its = converted.tensor(name), source.tensor(name)
            if len(own.shape) == 1:
                assert its.encoding is Encoding.F32
                np.testing.assert_array_equal(dequantize(its), dequantize(own))
            else:
                np.testing.assert_allclose(dequantize(its), dequantize(own), atol=0.05)


def test_a_network_that_gguf_has_no_words_for_is_refused(tmp_path):
    why = "YarnScaling of base 100 with these settings cannot be told in a GGUF file; load the folder"
    with open_weights(write_case(tmp_path, REFUSED)) as folder, pytest.raises(UnsupportedModel, match=why):
        ConvertedFolder(folder)


@pytest.mark.parametrize("stored", ["F16", "BF16"])
def test_vectors_become_float32_and_matrices_stay_as_they_are_stored(stored, tmp_path):
    folder = write_llama(tmp_path, llama3_pipeline(), CONFIG)
    file = folder / "model.safetensors"
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    values = np.frombuffer(data[8 + size :], "<f4")
    halves = values.astype("<f2") if stored == "F16" else (values.view("<u4") >> 16).astype("<u2")
    for entry in header.values():
        if "dtype" in entry:
            entry["dtype"] = stored
            entry["data_offsets"] = [place // 2 for place in entry["data_offsets"]]
    head = json.dumps(header).encode()
    file.write_bytes(len(head).to_bytes(8, "little") + head + halves.tobytes())
    with open_weights(folder) as source:
        converted = ConvertedFolder(source)
        for name in converted.names():
            tensor = converted.tensor(name)
            assert tensor.encoding.label == ("F32" if len(tensor.shape) == 1 else stored)
        np.testing.assert_array_equal(
            dequantize(converted.tensor("output_norm.weight")),
            dequantize(source.tensor("output_norm.weight")),
        )


@pytest.mark.parametrize("name", PIPELINES)
def test_the_tokenizer_is_the_folder_s(name, tmp_path):
    make, config = PIPELINES[name]
    folder = write_llama(tmp_path / "model", make(), config)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    written = quantize_file(folder, tmp_path / "out.gguf", "q8_0")
    with open_weights(folder) as source, open_weights(written.path) as file:
        own, its = load_tokenizer(source), load_tokenizer(file)
        assert file.metadata["tokenizer.chat_template"] == "{{ messages }}"
    assert its.special_tokens == own.special_tokens
    assert (its.bos_id, its.eos_ids, its.adds_bos) == (own.bos_id, own.eos_ids, own.adds_bos)
    assert its.vocab_size == own.vocab_size
    for token_id in range(own.vocab_size):
        assert its.token_bytes(token_id) == own.token_bytes(token_id)
        assert its.token_text(token_id) == own.token_text(token_id)
        assert its.is_special(token_id) == own.is_special(token_id)
    same_ids(own, its, after_control=name not in ("first", "always"))


def same_ids(own: Tokenizer, its: Tokenizer, after_control: bool) -> None:
    """`after_control`: what follows a control token is prepared like the beginning of a text by both."""
    words = ["he", "llo ", " ab", "a", "12", "\n ", "é", "日", *sorted(own.special_tokens.values())]

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from(words), max_size=6))
    def check(parts: list[str]) -> None:
        text = "x" + unicodedata.normalize("NFC", "".join(parts))
        for parse_special in {False, after_control}:
            found = its.encode(text, parse_special=parse_special)
            assert found == own.encode(text, parse_special=parse_special)

    check()


def test_the_gguf_package_reads_every_key(tmp_path):
    folder = write_llama(tmp_path / "model", marked_pipeline("legacy"), MARKED_CONFIG)
    extra = folder / "additional_chat_templates"
    extra.mkdir()
    (extra / "tool_use.jinja").write_text("{{ tools }}")
    reader = gguf.GGUFReader(str(quantize_file(folder, tmp_path / "out.gguf", "q4_k").path))
    read = {key: field.contents() for key, field in reader.fields.items()}
    assert read["general.architecture"] == "llama"
    assert read["llama.attention.head_count_kv"] == 2
    assert read["llama.rope.freq_base"] == 10_000.0
    assert read["tokenizer.ggml.model"] == "llama"
    assert read["tokenizer.ggml.add_bos_token"] is True
    assert read["tokenizer.ggml.tokens"][:3] == ["<unk>", "<s>", "</s>"]
    assert read["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 6]
    scores = dict(zip(read["tokenizer.ggml.tokens"], read["tokenizer.ggml.scores"], strict=True))
    assert scores["ab"] > scores["\u2581a"]  # merged before it
    assert read["tokenizer.chat_templates"] == ["tool_use"]
    assert read["tokenizer.chat_template.tool_use"] == "{{ tools }}"
    assert "tokenizer.chat_template" not in read


def test_rows_beyond_the_vocabulary_become_tokens_that_are_never_text(tmp_path):
    folder = write_llama(tmp_path / "model", llama3_pipeline(), CONFIG, vocab_size=300)
    with open_weights(quantize_file(folder, tmp_path / "out.gguf", "q8_0").path) as file:
        tokenizer = load_tokenizer(file)
    assert tokenizer.vocab_size == 300
    assert tokenizer.is_special(299)
    assert tokenizer.encode("[PAD299]", add_bos=False) != [299]


def with_end_of_turn() -> Pipeline:
    pipeline = llama3_pipeline()
    pipeline.add_special_tokens(["<turn over>"])
    return pipeline


def test_ends_that_have_no_role_of_their_own_are_ends_of_turns(tmp_path):
    folder = write_llama(tmp_path / "model", with_end_of_turn(), CONFIG, eos_token_id=[261], eot_token_id=262)
    with open_weights(folder) as source:
        converted = ConvertedFolder(source)
        assert load_tokenizer(converted).eos_ids == load_tokenizer(source).eos_ids == {261, 262}


def test_the_written_model_answers_like_the_folder(tmp_path):
    folder = write_llama(tmp_path / "model", llama3_pipeline(), CONFIG)
    written = quantize_file(folder, tmp_path / "out.gguf", "q8_0").path
    asked = DecodingParams(temperature=0.0, max_tokens=6, ignore_eos=True)
    with LLM(folder, weights="q8") as of_folder, LLM(written) as of_file:
        assert of_file.generate("hello", asked).token_ids == of_folder.generate("hello", asked).token_ids


def lowercased() -> Pipeline:
    pipeline = llama3_pipeline()
    pipeline.normalizer = normalizers.Lowercase()
    return pipeline


def cut_at_blanks() -> Pipeline:
    pipeline = llama3_pipeline()
    pipeline.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return pipeline


def merged_otherwise() -> Pipeline:
    """Two letters that are a piece, and no merge of them."""
    pipeline = marked_pipeline("none")
    state = json.loads(pipeline.model.__getstate__())
    pipeline.model = models.BPE(
        state["vocab"], [("\u2581", "a")], unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    return pipeline


def suffixed() -> Pipeline:
    pipeline = llama3_pipeline()
    state = json.loads(pipeline.model.__getstate__())
    pipeline.model = models.BPE(state["vocab"], [], end_of_word_suffix="Ġ", ignore_merges=True)
    return pipeline


@pytest.mark.parametrize(
    ("make", "config", "why"),
    [
        (lowercased, CONFIG, "its normalizer Lowercase"),
        (cut_at_blanks, CONFIG, "its pre-tokenizer WhitespaceSplit"),
        (byte_level_pipeline, CONFIG, r"its way of cutting words \(\["),
        (merged_otherwise, MARKED_CONFIG, "its merges, which are not those of scores,"),
        (suffixed, CONFIG, "its end_of_word_suffix"),
    ],
)
def test_a_tokenizer_that_gguf_has_no_words_for_is_refused(make, config, why, tmp_path):
    folder = write_llama(tmp_path / "model", make(), config)
    with pytest.raises(UnsupportedModel, match=f"{why}.* cannot be told in a GGUF file; load the folder"):
        quantize_file(folder, tmp_path / "out.gguf", "q8_0")
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_habits_of_an_added_token_that_a_file_does_not_have_are_refused(flag, tmp_path):
    pipeline = llama3_pipeline()
    pipeline.add_tokens([AddedToken("<note>", special=False, normalized=False, **{flag: True})])
    folder = write_llama(tmp_path / "model", pipeline, CONFIG)
    with pytest.raises(UnsupportedModel, match="how it finds the token '<note>' cannot be told"):
        quantize_file(folder, tmp_path / "out.gguf", "q8_0")


@pytest.mark.parametrize(
    ("prefix", "text", "normalized"), [("legacy", "<note>", True), ("none", "two words", False)]
)
def test_a_token_that_is_looked_for_when_spaces_are_marked_otherwise_is_refused(
    prefix, text, normalized, tmp_path
):
    pipeline = marked_pipeline(prefix)
    pipeline.add_tokens([AddedToken(text, special=False, normalized=normalized)])
    folder = write_llama(tmp_path / "model", pipeline, MARKED_CONFIG)
    with pytest.raises(UnsupportedModel, match=f"how it finds the token '{text}' cannot be told"):
        quantize_file(folder, tmp_path / "out.gguf", "q8_0")


def test_a_row_that_pads_the_vocabulary_takes_no_name_that_a_token_has(tmp_path):
    pipeline = llama3_pipeline()
    pipeline.add_tokens([AddedToken("[PAD280]", special=False, normalized=False)])
    folder = write_llama(tmp_path / "model", pipeline, CONFIG, vocab_size=300)
    with open_weights(folder) as source:
        converted = ConvertedFolder(source)
        tokenizer = load_tokenizer(converted)
    assert tokenizer.vocab_size == 300
    assert tokenizer.encode("[PAD280]", add_bos=False) == [262]
    assert tokenizer.is_special(280)


def test_more_tokens_than_rows_of_weights_are_refused(tmp_path):
    folder = write_llama(tmp_path, llama3_pipeline(), CONFIG, vocab_size=260)
    with (
        open_weights(folder) as source,
        pytest.raises(UnsupportedModel, match="a vocabulary of 262 tokens with 260 rows of weights cannot"),
    ):
        ConvertedFolder(source)


def test_the_language_model_of_a_folder_with_pictures_has_a_token_for_each_row(tmp_path):
    case = next(case for case in HF_CASES if case.name == "gemma3")
    folder = write_case(tmp_path, case)
    config = json.loads((folder / "config.json").read_text())
    outer = {"model_type": "gemma3", "text_config": config}
    (folder / "config.json").write_text(json.dumps(outer))
    tiny_pipeline(50).save(str(folder / "tokenizer.json"))
    with open_weights(folder) as source:
        converted = ConvertedFolder(source)
        assert len(converted.metadata["tokenizer.ggml.tokens"]) == case.config["vocab_size"] == 64


def changed(prefix: str, **state: Any) -> Pipeline:
    """`marked_pipeline` with other components, or another trait of its model."""
    described = json.loads(marked_pipeline(prefix).to_str())
    for key, value in state.items():
        if key in described:
            described[key] = value
        else:
            described["model"][key] = value
    return Pipeline.from_str(json.dumps(described))


def spanning_words() -> Pipeline:
    """A piece with a space within, which no merge makes where words are cut at spaces."""
    described = json.loads(changed("none", pre_tokenizer=METASPACE).to_str())
    vocabulary = described["model"]["vocab"]
    del described["added_tokens"][-1]
    vocabulary["a\u2581a"] = len(vocabulary)
    described["model"]["merges"].append(["a", "\u2581a"])
    return Pipeline.from_str(json.dumps(described))


REPLACES = {"type": "Replace", "pattern": {"String": "ﬁ"}, "content": "fi"}
MARKS = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": True}
CUTS_AT_B = {"type": "Split", "pattern": {"String": "b"}, "behavior": "Isolated", "invert": False}
CUTS_AT_SPACES = CUTS_AT_B | {"pattern": {"String": " "}}


@pytest.mark.parametrize(
    ("pipeline", "why"),
    [
        (
            changed("none", normalizer={"type": "Sequence", "normalizers": [REPLACES, MARKS]}),
            "its normalizer R",
        ),
        (changed("none", pre_tokenizer=CUTS_AT_B), "its pre-tokenizer Split.*'b'"),
        (changed("none", pre_tokenizer={"type": "Digits", "individual_digits": True}), "its pre-tokenizer D"),
        (spanning_words(), "its pre-tokenizer Metaspace"),
        (changed("none", ignore_merges=True), "its ignore_merges"),
        (changed("none", byte_fallback=False, fuse_unk=False), "how it spells unknown characters"),
    ],
)
def test_marked_text_that_is_changed_or_cut_otherwise_is_refused(pipeline, why, tmp_path):
    folder = write_llama(tmp_path / "model", pipeline, MARKED_CONFIG)
    with pytest.raises(UnsupportedModel, match=f"{why}.* cannot be told in a GGUF file"):
        quantize_file(folder, tmp_path / "out.gguf", "q8_0")


@pytest.mark.parametrize("pre_tokenizer", [CUTS_AT_SPACES, METASPACE])
def test_cuts_that_change_nothing_in_marked_text_are_left_out(pre_tokenizer, tmp_path):
    folder = write_llama(tmp_path, changed("none", pre_tokenizer=pre_tokenizer), MARKED_CONFIG)
    with open_weights(folder) as source:
        converted = ConvertedFolder(source)
        same_ids(load_tokenizer(source), load_tokenizer(converted), after_control=True)


def with_merges(*merges: tuple[str, str]) -> Pipeline:
    """A pipeline of marked pieces with "aa" and "aaa", and so merged."""
    described = json.loads(marked_pipeline("none").to_str())
    model = described["model"]
    del described["added_tokens"][-1]
    model["vocab"] |= {piece: len(model["vocab"]) + i for i, piece in enumerate(("aa", "aaa"))}
    model["merges"] = [["a", "b"], ["\u2581", "a"], *map(list, merges)]
    return Pipeline.from_str(json.dumps(described))


def test_merges_whose_ways_to_make_a_piece_do_not_stand_together_are_refused(tmp_path):
    pipeline = with_merges(("aa", "a"), ("a", "a"), ("a", "aa"))
    folder = write_llama(tmp_path, pipeline, MARKED_CONFIG)
    why = "its merges, which are not those of scores"
    with open_weights(folder) as source, pytest.raises(UnsupportedModel, match=why):
        ConvertedFolder(source)


@pytest.mark.parametrize("whole_first", [False, True])
def test_the_order_of_the_ways_to_make_a_piece_does_not_matter(whole_first, tmp_path):
    ways = [("aa", "a"), ("a", "aa")]
    pipeline = with_merges(("a", "a"), *(reversed(ways) if whole_first else ways))
    with open_weights(write_llama(tmp_path, pipeline, MARKED_CONFIG)) as source:
        own, its = load_tokenizer(source), load_tokenizer(ConvertedFolder(source))
    for text in ("a", "aaa", "aaab", "ab aaa"):
        assert its.encode(text) == own.encode(text)


def gemma_pipeline(*, late: bool = False) -> Pipeline:
    """Runs of spaces are tokens, spelled in marks, that come of merges: the first, or the last."""
    described = json.loads(marked_pipeline("none").to_str())
    model = described["model"]
    runs = [n * "\u2581" for n in (2, 3, 4)]
    model["vocab"] |= {piece: len(model["vocab"]) + i for i, piece in enumerate(runs)}
    cuts = [[run[:n], run[n:]] for run in reversed(runs) for n in range(len(run) - 1, 0, -1)]
    words = [["\u2581", "a"], ["a", "b"]]
    model["merges"] = words + cuts if late else cuts + words
    pipeline = Pipeline.from_str(json.dumps(described))
    pipeline.add_tokens([AddedToken(run, special=False, normalized=False) for run in runs])
    return pipeline


def test_runs_of_spaces_that_are_tokens_are_found_as_the_folder_merges_them(tmp_path):
    with open_weights(write_llama(tmp_path, gemma_pipeline(), MARKED_CONFIG)) as source:
        own, its = load_tokenizer(source), load_tokenizer(ConvertedFolder(source))
    for n in range(6):
        text = f"ab{n * ' '}a"
        assert its.encode(text) == own.encode(text)
        assert its.decode(its.encode(text)) == text


def test_runs_of_spaces_that_are_merged_after_other_pieces_are_refused(tmp_path):
    folder = write_llama(tmp_path, gemma_pipeline(late=True), MARKED_CONFIG)
    with (
        open_weights(folder) as source,
        pytest.raises(UnsupportedModel, match=r"how it cuts .* cannot be told"),
    ):
        ConvertedFolder(source)


def test_a_window_that_is_not_below_the_context_keeps_the_layers_rotations(tmp_path):
    case = next(case for case in HF_CASES if case.name == "gemma3")
    folder = write_case(tmp_path, case)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"sliding_window": 128}))
    with open_weights(folder) as source:
        converted = ConvertedFolder(source)
        own, its = read_config(source), read_config(converted)
    assert own.windows == its.windows == (None,) * 7
    assert len(set(own.rotaries)) == 2
    for mine, other in zip(own.rotaries, its.rotaries, strict=True):
        np.testing.assert_allclose(other.inv_freq, mine.inv_freq, rtol=1e-6)


def test_what_is_read_back_is_compared_field_by_field(tmp_path):
    with open_weights(write_case(tmp_path, TOLD[0])) as source:
        config = read_config(source)
    for name, other in (
        ("context_length", 64),
        ("norm_eps", 1e-3),
        ("logit_softcap", 30.0),
        ("windows", (4, 4, 4)),
    ):
        with pytest.raises(UnsupportedModel, match=f"config.json: {name} = .* cannot be told in a GGUF file"):
            check_same(replace(config, **{name: other}), config, tmp_path)
    turned = replace(config, rotaries=tuple(replace(r, magnitude=1.5) for r in config.rotaries))
    with pytest.raises(UnsupportedModel, match="rotary positions of base 10000"):
        check_same(turned, config, tmp_path)


def test_other_tokens_than_the_folder_s_are_refused(tmp_path):
    folder = write_llama(tmp_path, llama3_pipeline(), CONFIG)
    with open_weights(folder) as source:
        parts, metadata = (
            tokenizer_parts(source.path, source.metadata),
            dict(ConvertedFolder(source).metadata),
        )
    texts = list(metadata["tokenizer.ggml.tokens"])
    texts[65], texts[66] = texts[66], texts[65]
    metadata["tokenizer.ggml.tokens"] = texts
    with pytest.raises(UnsupportedModel, match="its tokens cannot be told in a GGUF file; load the folder"):
        check_same_words(parts, folder / "tokenizer.json", metadata)


def test_more_ends_than_a_file_has_roles_for_are_refused(tmp_path):
    pipeline = with_end_of_turn()
    pipeline.add_special_tokens(["<one>", "<two>", "<three>"])
    folder = write_llama(tmp_path, pipeline, CONFIG, eos_token_id=[261, 262, 263, 264, 265])
    why = r"eos_ids = \[261, 262, 263, 264, 265\] cannot be told"
    with open_weights(folder) as source, pytest.raises(UnsupportedModel, match=why):
        ConvertedFolder(source)


def test_words_that_are_cut_after_they_became_bytes_are_refused(tmp_path):
    pipeline = llama3_pipeline()
    described = json.loads(pipeline.to_str())
    described["pre_tokenizer"]["pretokenizers"].reverse()
    folder = write_llama(tmp_path, Pipeline.from_str(json.dumps(described)), CONFIG)
    with (
        open_weights(folder) as source,
        pytest.raises(UnsupportedModel, match="a pre-tokenizer after ByteLevel cannot be told"),
    ):
        ConvertedFolder(source)


def test_layers_that_rotate_more_of_a_head_than_others_are_refused(tmp_path):
    case = next(case for case in HF_CASES if case.name == "gemma3")
    folder = write_case(tmp_path, case)
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 0.5
    (folder / "config.json").write_text(json.dumps(config))
    with (
        open_weights(folder) as source,
        pytest.raises(UnsupportedModel, match=r"rotary positions of base 10000 with these settings"),
    ):
        ConvertedFolder(source)


@pytest.mark.parametrize(
    "more",
    [
        {"chat_template": "a\ud800"},
        {"chat_template": [{"name": "\udc00", "template": "a"}]},
        {"bos_token": "\ud800"},
    ],
)
def test_half_a_surrogate_pair_is_no_text(more, tmp_path):
    folder = write_llama(tmp_path / "model", llama3_pipeline(), CONFIG | more)
    with pytest.raises(ModelFileError, match=r"tokenizer_config.json: .*holds half a surrogate pair"):
        quantize_file(folder, tmp_path / "out.gguf", "q8_0")


def test_a_role_without_a_token_is_refused_where_a_chat_template_reads_it(tmp_path):
    config = CONFIG | {"pad_token": "<nowhere>"}
    folder = write_llama(tmp_path / "model", llama3_pipeline(), config)
    quantize_file(folder, tmp_path / "out.gguf", "q8_0")
    (folder / "chat_template.jinja").write_text("{{ pad_token }}")
    with (
        open_weights(folder) as source,
        pytest.raises(
            UnsupportedModel, match="pad_token = '<nowhere>', which its chat template reads, cannot"
        ),
    ):
        ConvertedFolder(source)


def test_a_network_whose_windows_never_end_before_the_context_has_one_of_the_context(tmp_path):
    case = next(case for case in HF_CASES if case.name == "gemma2")
    folder = write_case(tmp_path, case)
    config = json.loads((folder / "config.json").read_text()) | {"sliding_window": 4096}
    (folder / "config.json").write_text(json.dumps(config))
    with open_weights(folder) as source:
        converted = ConvertedFolder(source)
        assert converted.metadata["gemma2.attention.sliding_window"] == 128  # 0 would be a window of nothing


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "new.safetensors", "new"]
)
def test_the_folder_s_own_files_are_left_alone(name, tmp_path):
    folder = write_llama(tmp_path / "model", llama3_pipeline(), CONFIG)
    for model in (folder, folder / "model.safetensors"):
        with pytest.raises(
            BadRequest, match=r"would be a file of the model itself; give a name that ends in"
        ):
            quantize_file(model, folder / name, "q8_0", replace=True)
    blob = tmp_path / "blob"
    (folder / "config.json").rename(blob)
    (folder / "config.json").symlink_to(blob)
    with pytest.raises(BadRequest, match="would be a file of the model itself"):
        quantize_file(folder, blob, "q8_0", replace=True)
    for _ in range(2):
        assert quantize_file(folder, folder / "out.gguf", "q8_0", replace=True).path.exists()


def test_tokens_of_which_the_file_finds_another_first_are_refused(tmp_path):
    pipeline = llama3_pipeline()
    for text, normalized in (("--+", False), ("+-", True)):
        pipeline.add_tokens([AddedToken(text, special=False, normalized=normalized)])
    folder = write_llama(tmp_path, pipeline, CONFIG)
    with (
        open_weights(folder) as source,
        pytest.raises(UnsupportedModel, match=r"which of the tokens '--\+' and '\+-' it finds first cannot"),
    ):
        ConvertedFolder(source)


def test_an_unknown_token_that_is_not_looked_for_in_texts_is_refused(tmp_path):
    pipeline = llama3_pipeline()
    state = json.loads(pipeline.model.__getstate__())
    merges = [tuple(merge) for merge in state["merges"]]
    pipeline.model = models.BPE(state["vocab"], merges, ignore_merges=True, unk_token="a")
    folder = write_llama(tmp_path, pipeline, CONFIG)
    with (
        open_weights(folder) as source,
        pytest.raises(UnsupportedModel, match="the unknown token 'a', which is not an added one, cannot"),
    ):
        ConvertedFolder(source)


def test_a_token_with_a_space_where_none_is_marked_before_tokens_are_found_is_refused(tmp_path):
    pipeline = changed("none", normalizer=None, pre_tokenizer=METASPACE)
    pipeline.add_tokens([AddedToken("two words", special=False, normalized=True)])
    folder = write_llama(tmp_path, pipeline, MARKED_CONFIG)
    with (
        open_weights(folder) as source,
        pytest.raises(UnsupportedModel, match="how it finds the token 'two words' cannot be told"),
    ):
        ConvertedFolder(source)
