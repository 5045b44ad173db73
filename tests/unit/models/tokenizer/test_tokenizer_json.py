"""Tokenizers from tokenizer.json, saved by the tokenizers library and compared with what it does itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipelines import CONFIG, MARKED_CONFIG, byte_level_pipeline, marked_pipeline
from tokenizers import (
    AddedToken,
    decoders,
    models,
    pre_tokenizers,
    processors,
)
from tokenizers import Tokenizer as Pipeline

from unspool.errors import BadRequest, ModelFileError, UnspoolError, UnsupportedModel
from unspool.models.tokenizer import Tokenizer, TokenKind, load_tokenizer
from unspool.models.tokenizer.library import blamed_on


class Folder:
    format = "safetensors"

    def __init__(self, path: Path, metadata: Mapping[str, Any]) -> None:
        self.path = path
        self.metadata = metadata


def save(
    folder: Path, pipeline: Pipeline, config: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> Tokenizer:
    pipeline.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return load_tokenizer(Folder(folder, metadata or {}))  # type: ignore[arg-type]


@pytest.fixture
def byte_level(tmp_path: Path) -> Tokenizer:
    return save(tmp_path, byte_level_pipeline(), CONFIG)


def test_ids_are_those_of_the_saved_pipeline(byte_level: Tokenizer) -> None:
    pipeline = byte_level_pipeline()
    for text in ("hello hello 12", "", " he<tool>he", "e\u0301 é <|im_end|> <|begin|>x"):
        parsed = pipeline.encode(text, add_special_tokens=False).ids
        assert byte_level.encode(text, add_bos=False, parse_special=True) == parsed
        plain = byte_level.encode(text, add_bos=False)
        assert not any(byte_level.is_special(i) for i in plain)
        assert byte_level.decode(parsed) == pipeline.decode(parsed, skip_special_tokens=True)
        assert byte_level.decode(parsed, skip_special=False) == pipeline.decode(
            parsed, skip_special_tokens=False
        )


def test_added_tokens_outside_the_vocabulary_keep_their_ids(byte_level: Tokenizer) -> None:
    assert byte_level.vocab_size == 262
    assert byte_level.encode("<tool>", add_bos=False) == [260]
    assert [byte_level.kind(i) for i in (0, 259, 260, 261)] == [
        TokenKind.NORMAL,
        TokenKind.CONTROL,
        TokenKind.USER_DEFINED,
        TokenKind.CONTROL,
    ]
    assert byte_level.token_bytes(260) == b"<tool>"
    assert byte_level.token_id("<|im_end|>") == 261


def test_bos_comes_from_the_post_processor_unless_the_config_says(tmp_path: Path) -> None:
    assert save(tmp_path, byte_level_pipeline(), CONFIG).encode("he") == [259, 256]
    assert save(tmp_path, byte_level_pipeline(), CONFIG | {"add_bos_token": False}).encode("he") == [256]
    pipeline = byte_level_pipeline()
    pipeline.post_processor = processors.ByteLevel()
    assert save(tmp_path, pipeline, CONFIG).encode("he") == [256]
    assert save(tmp_path, pipeline, CONFIG | {"add_bos_token": True}).encode("he") == [259, 256]
    assert not save(tmp_path, pipeline, {"add_bos_token": True}).adds_bos  # without a BOS token
    assert save(tmp_path, byte_level_pipeline(), CONFIG).encode("<|begin|>he", parse_special=True) == [
        259,
        256,
    ]


def test_text_is_normalized_as_the_file_says_and_bytes_never(byte_level: Tokenizer) -> None:
    decomposed = "e\u0301"
    assert byte_level.decode(byte_level.encode(decomposed)) == "é"
    assert byte_level.decode_bytes(byte_level.encode_bytes(decomposed.encode())) == decomposed.encode()


def test_every_declared_end_counts(tmp_path: Path) -> None:
    metadata = {"eos_token_id": 3, "bos_token_id": 1, "generation": {"eos_token_id": [4, 260]}}
    tokenizer = save(tmp_path, byte_level_pipeline(), {"bos_token": "<|begin|>"}, metadata)
    assert tokenizer.eos_ids == {3, 4, 260, 261}  # the last one by its name
    assert save(tmp_path, byte_level_pipeline(), CONFIG).eos_ids == {261}


def test_rows_of_the_output_layer_beyond_the_vocabulary_are_unused_tokens(tmp_path: Path) -> None:
    tokenizer = save(tmp_path, byte_level_pipeline(), CONFIG, {"vocab_size": 300})
    assert tokenizer.vocab_size == 300
    assert tokenizer.kind(299) == TokenKind.UNUSED
    assert tokenizer.token_bytes(299) == b""
    assert tokenizer.token_text(299) == "[299]"
    assert tokenizer.decode([299, 256]) == "he"


def test_the_older_map_of_special_tokens_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"bos_token": "<|begin|>", "pad_token": "x"})
    )
    tokenizer = save(tmp_path, byte_level_pipeline(), {"pad_token": None, "eos_token": "<|im_end|>"})
    assert tokenizer.special_tokens == {"bos_token": "<|begin|>", "eos_token": "<|im_end|>"}


@pytest.mark.parametrize("prefix", ["legacy", "first", "always", "none"])
def test_ids_of_marked_vocabularies_are_those_of_the_saved_pipeline(tmp_path: Path, prefix: str) -> None:
    pipeline = marked_pipeline(prefix)
    tokenizer = save(tmp_path, pipeline, MARKED_CONFIG)
    assert tokenizer.strips_leading_space == (prefix != "none")
    for text in ("ab a b", "", " a", "é", "<s>a</s><s>b", "a<tool>b", "<unk>"):
        parsed = pipeline.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_bos=False, parse_special=True) == parsed
        assert tokenizer.encode(text, add_bos=False, parse_special=True, literal_spans=[(0, 0)]) == parsed
        assert not {1, 2}.intersection(tokenizer.encode(text, add_bos=False))
    assert tokenizer.encode("a")[0] == 1
    assert tokenizer.decode(tokenizer.encode("ab a")) == "ab a"


shared = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@shared
@given(data=st.binary() | st.text(alphabet="ab é\u2581<s>\n").map(str.encode))
def test_bytes_survive_every_pipeline(
    every_pipeline: list[Tokenizer], byte_level: Tokenizer, data: bytes
) -> None:
    for tokenizer in (byte_level, *every_pipeline):
        ids = tokenizer.encode_bytes(data)
        assert tokenizer.decode_bytes(ids) == data
        assert b"".join(map(tokenizer.token_bytes, ids)) == tokenizer.decode_bytes(ids, continues=True)


@pytest.fixture
def every_pipeline(tmp_path_factory: pytest.TempPathFactory) -> list[Tokenizer]:
    prefixes = ("legacy", "first", "always", "none")
    return [save(tmp_path_factory.mktemp(p), marked_pipeline(p), MARKED_CONFIG) for p in prefixes]


def test_a_space_that_the_pre_tokenizer_puts_first_is_no_byte(tmp_path: Path) -> None:
    pipeline = byte_level_pipeline()
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer = save(tmp_path, pipeline, CONFIG)
    assert tokenizer.decode(tokenizer.encode("he")) == " he"
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(b"he")) == b"he"


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path, {})
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: file: is missing"):
        load_tokenizer(folder)  # type: ignore[arg-type]
    for broken in ("", "{", "[]", '{"model": {"type": "BPE"}}', "\x00" * 100):
        (tmp_path / "tokenizer.json").write_text(broken)
        with pytest.raises(ModelFileError, match=r"tokenizer\.json: file: is not a tokenizer"):
            load_tokenizer(folder)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("[]", r"is \[\], expected an object"),
        ("{", "is not JSON"),
        ('{"bos_token": 3}', "bos_token: is a int, expected a string"),
        ('{"eos_token": {"content": []}}', "eos_token: is a list"),
        ("[" * 100_000, "nests too deep"),
    ],
)
def test_a_broken_config_is_named(tmp_path: Path, config: str, problem: str) -> None:
    save(tmp_path, byte_level_pipeline(), {})
    (tmp_path / "tokenizer_config.json").write_text(config)
    with pytest.raises(ModelFileError, match=problem) as error:
        load_tokenizer(Folder(tmp_path, {}))  # type: ignore[arg-type]
    assert "tokenizer_config.json" in str(error.value)


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"eos_token_id": 999}, r"config\.json: eos_token_id: is 999, expected token ids from 0 to 261"),
        ({"eos_token_id": "2"}, "eos_token_id: is 2"),
        ({"eos_token_id": [1, None, True]}, r"eos_token_id: is \[1, None, True\]"),
        ({"generation": {"eos_token_id": [-1]}}, r"generation_config\.json: eos_token_id: is \[-1\]"),
        ({"vocab_size": 1 << 40}, r"model\.vocab: needs 1099511627776 rows"),
    ],
)
def test_ids_outside_the_vocabulary_are_named(tmp_path: Path, metadata: dict[str, Any], problem: str) -> None:
    with pytest.raises(ModelFileError, match=problem):
        save(tmp_path, byte_level_pipeline(), CONFIG, metadata)


def test_other_algorithms_and_decoders_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"model: is 'WordLevel', .* known: BPE"):
        save(tmp_path, Pipeline(models.WordLevel({"a": 0}, unk_token="a")), {})
    pipeline = byte_level_pipeline()
    pipeline.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModel, match="decoder: is WordPiece"):
        save(tmp_path, pipeline, {})
    pipeline.decoder = None
    with pytest.raises(UnsupportedModel, match="decoder: is missing"):
        save(tmp_path, pipeline, {})


def test_an_empty_vocabulary_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(models.BPE({}, []))
    pipeline.decoder = decoders.ByteLevel()
    with pytest.raises(ModelFileError, match="needs 0 rows"):
        save(tmp_path, pipeline, {})


def test_a_vocabulary_of_few_bytes_refuses_the_others(tmp_path: Path) -> None:
    pipeline = Pipeline(models.BPE({"a": 0}, []))
    pipeline.decoder = decoders.ByteLevel()
    tokenizer = save(tmp_path, pipeline, {})
    assert tokenizer.encode("aba") == [0, 0]
    with pytest.raises(BadRequest, match="byte 0x62 at offset 1"):
        tokenizer.encode_bytes(b"aba")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_changed_anywhere_is_a_typed_error_or_a_tokenizer_that_works(
    tmp_path: Path, change: Callable[[Any, st.DataObject], Any], data: st.DataObject
) -> None:
    save(tmp_path, data.draw(st.sampled_from([byte_level_pipeline(), marked_pipeline("legacy")])), CONFIG)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()), data)))
    try:
        tokenizer = load_tokenizer(Folder(tmp_path, {}))  # type: ignore[arg-type]
    except UnspoolError:
        return
    ids = tokenizer.encode("hello <|im_end|> ab")
    assert all(0 <= i < tokenizer.vocab_size for i in ids)
    tokenizer.decode(ids)


@pytest.fixture
def change() -> Callable[[Any, st.DataObject], Any]:
    junk = (
        st.none() | st.booleans() | st.integers(-9, 1 << 40) | st.text(max_size=4) | st.just([]) | st.just({})
    )

    def changed(node: Any, data: st.DataObject) -> Any:
        """Follow a random path down and replace or remove what is there."""
        if isinstance(node, dict) and node and data.draw(st.integers(0, 9)):
            key = data.draw(st.sampled_from(sorted(node)))
            if not data.draw(st.integers(0, 9)):
                return {k: v for k, v in node.items() if k != key}
            return node | {key: changed(node[key], data)}
        if isinstance(node, list) and node and data.draw(st.integers(0, 9)):
            index = data.draw(st.integers(0, len(node) - 1))
            return [*node[:index], changed(node[index], data), *node[index + 1 :]]
        return data.draw(junk)

    return changed


def test_a_panic_of_the_library_is_a_typed_error(tmp_path: Path) -> None:
    save(tmp_path, byte_level_pipeline(), CONFIG)
    file = tmp_path / "tokenizer.json"
    state = json.loads(file.read_text())
    state["post_processor"]["special_tokens"] = {}
    file.write_text(json.dumps(state))
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: post_processor: fails on an empty text"):
        load_tokenizer(Folder(tmp_path, {}))  # type: ignore[arg-type]


def test_only_failures_of_the_library_are_blamed_on_a_file() -> None:
    with pytest.raises(KeyboardInterrupt), blamed_on("file", "field", "problem"):
        raise KeyboardInterrupt
    with pytest.raises(BadRequest), blamed_on("file", "field", "problem"):
        raise BadRequest("as it is")
    with (
        pytest.raises(ModelFileError, match="file: field: problem: a b"),
        blamed_on("file", "field", "problem"),
    ):
        raise ValueError("a\nb")


def test_a_run_of_spaces_that_is_an_added_token_of_marks_is_written_as_spaces(tmp_path: Path) -> None:
    """Gemma's are added as marks, which no text has, and made by merges."""
    described = json.loads(marked_pipeline("none").to_str())
    del described["added_tokens"][-1]
    described["model"]["vocab"]["▁▁"] = len(described["model"]["vocab"])
    described["model"]["merges"].insert(0, ["▁", "▁"])
    pipeline = Pipeline.from_str(json.dumps(described))
    pipeline.add_tokens([AddedToken("▁▁", special=False, normalized=False)])
    tokenizer = save(tmp_path, pipeline, MARKED_CONFIG)
    ids = tokenizer.encode("a  b")
    assert ids == [1, *pipeline.encode("a  b").ids]
    assert tokenizer.kind(ids[2]) is TokenKind.USER_DEFINED
    assert tokenizer.decode(ids) == pipeline.decode(ids) == "a  b"
    assert tokenizer.encode_bytes("▁▁ a".encode(), add_bos=False) != tokenizer.encode_bytes(
        b"   a", add_bos=False
    )
