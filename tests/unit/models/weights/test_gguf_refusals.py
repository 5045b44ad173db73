"""A corrupt or hostile GGUF file is refused with the file and the field, before anything is allocated."""

import os
import struct
import tracemalloc

import pytest

from unspool.errors import ModelFileError, ModelNotFound, UnsupportedModel
from unspool.models.weights import Encoding, gguf_cursor, gguf_metadata, open_weights
from unspool.models.weights.ggml_types import ENCODING_OF_TYPE, REFUSED_TYPES

F32, Q8_0 = 0, 8
U8, U32, BOOL, STRING, ARRAY, U64 = 0, 4, 7, 8, 9, 10
HUGE = [1 << 40, 1 << 60, 1 << 63, (1 << 64) - 1]


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def text(value: bytes) -> bytes:
    return u64(len(value)) + value


def refusal(writer, kind=ModelFileError):
    """Open what was written; return the error, which must name the file and be one short line."""
    path = writer.write()
    tracemalloc.start()
    try:
        with pytest.raises(kind) as caught:
            open_weights(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    assert len(message) < len(str(path)) + 400
    return caught.value


def field_of(writer) -> str:
    return refusal(writer).field


# What is no GGUF file at all.


def test_nothing_at_the_path_is_not_found(tmp_path):
    with pytest.raises(ModelNotFound, match=r"nothing\.gguf"):
        open_weights(tmp_path / "nothing.gguf")


def test_a_path_no_file_system_could_hold_is_refused():
    with pytest.raises(ModelFileError, match="cannot be opened"):
        open_weights("x" * 5000)


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "empty.gguf"
    path.touch()
    with pytest.raises(ModelFileError, match="is empty"):
        open_weights(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    path = tmp_path / "pipe.gguf"
    os.mkfifo(path)
    with pytest.raises(ModelFileError, match="not a regular file"):
        open_weights(path)


def test_a_path_that_leads_to_itself_is_refused(tmp_path):
    path = tmp_path / "loop.gguf"
    path.symlink_to(path)
    with pytest.raises(ModelFileError, match="cannot be opened"):
        open_weights(path)


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (b"PK\x03\x04", "zip archive, .* pickle"),
        (b"PK\x05\x06", "empty zip"),
        (b"\x80\x02\x8a\x0a", "is a pickle: .* runs whatever code"),
        (b"\x80\x04\x95", "is a pickle"),
        (b"lmgg", "older than GGUF"),
        (b"tjgg", "older than GGUF"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"<!DOCTYPE html>", "web page"),
        (b"junk", "starts with b'junk'"),
        (b"G", "starts with b'G'"),
    ],
)
def test_other_kinds_of_file_are_named(tmp_path, head, problem):
    path = tmp_path / "model.gguf"
    path.write_bytes(head)
    with pytest.raises(ModelFileError, match=problem) as caught:
        open_weights(path)
    assert caught.value.path == str(path)


@pytest.mark.parametrize(("version", "words"), [(1, "version 1"), (4, "version 4"), (0, "version 0")])
def test_versions_other_than_two_and_three_are_refused(gguf_writer, version, words):
    gguf_writer.version = u32(version)
    assert words in str(refusal(gguf_writer, UnsupportedModel))


def test_big_endian_files_are_refused_by_name(gguf_writer):
    gguf_writer.version = struct.pack(">I", 3)
    assert "is big-endian" in str(refusal(gguf_writer, UnsupportedModel))


def test_split_files_are_refused_with_the_way_out(gguf_writer):
    gguf_writer.pair("split.count", u32(2) + struct.pack("<H", 3))
    message = str(refusal(gguf_writer, UnsupportedModel))
    assert "one of 3 parts" in message
    assert "llama-gguf-split --merge" in message


def test_a_file_split_into_one_part_is_whole(gguf_writer):
    gguf_writer.pair("split.count", u32(2) + struct.pack("<H", 1))
    assert open_weights(gguf_writer.write()).metadata["split.count"] == 1


# Metadata.


@pytest.mark.parametrize("count", [1, *HUGE])
def test_more_keys_than_the_file_can_hold_are_refused(gguf_writer, count):
    gguf_writer.n_keys = count
    assert field_of(gguf_writer) == "metadata_kv_count"


@pytest.mark.parametrize("length", [70000, *HUGE])
def test_a_key_longer_than_keys_may_be_is_refused(gguf_writer, length):
    gguf_writer.pairs.append(u64(length) + b"general.name" + bytes(40))
    assert field_of(gguf_writer) == "key 0 length"


def test_a_key_cut_off_by_the_end_of_the_file_is_refused(gguf_writer):
    gguf_writer.pairs.append(u64(5000) + b"general.name" + bytes(40))
    assert field_of(gguf_writer) == "key 0"


def test_keys_must_be_utf8_not_empty_and_unique(gguf_writer):
    gguf_writer.pair(b"\xff\xfe", u32(U32, 1))
    assert field_of(gguf_writer) == "key 0"
    gguf_writer.pairs = [text(b"") + u32(U32, 1)]
    assert field_of(gguf_writer) == "key 0"
    gguf_writer.pairs = [text(b"a.b") + u32(U32, 1)] * 2
    error = refusal(gguf_writer)
    assert (error.field, "twice" in str(error)) == ("a.b", True)


def test_control_characters_of_a_key_are_escaped_in_the_message(gguf_writer):
    gguf_writer.pair(b"\x1b[31mred\n" + b"x" * 500, u32(99))
    assert field_of(gguf_writer).startswith("\\x1b[31mred\\nxxx")


@pytest.mark.parametrize("value_type", [13, 99, (1 << 32) - 1])
def test_an_unknown_value_type_is_refused(gguf_writer, value_type):
    gguf_writer.pair("a.b", u32(value_type) + bytes(16))
    assert field_of(gguf_writer) == "a.b type"


@pytest.mark.parametrize("length", HUGE)
def test_a_string_longer_than_the_file_is_refused(gguf_writer, length):
    gguf_writer.pair("a.b", u32(STRING) + u64(length) + b"text")
    assert field_of(gguf_writer) == "a.b length"


def test_a_string_that_is_not_utf8_is_refused(gguf_writer):
    gguf_writer.pair("a.b", u32(STRING) + text(b"caf\xe9"))
    error = refusal(gguf_writer)
    assert (error.field, "not UTF-8" in str(error)) == ("a.b", True)


def test_a_bool_that_is_neither_is_refused(gguf_writer):
    gguf_writer.pair("a.b", u32(BOOL) + b"\2")
    assert field_of(gguf_writer) == "a.b"
    gguf_writer.pairs = [text(b"a.c") + u32(ARRAY, BOOL) + u64(3) + b"\0\1\7"]
    assert field_of(gguf_writer) == "a.c"


@pytest.mark.parametrize("n_items", HUGE)
@pytest.mark.parametrize(("item_type", "field"), [(U8, "a.b"), (U64, "a.b"), (BOOL, "a.b")])
def test_an_array_of_numbers_longer_than_the_file_is_refused(gguf_writer, item_type, field, n_items):
    gguf_writer.pair("a.b", u32(ARRAY, item_type) + u64(n_items) + bytes(64))
    assert field_of(gguf_writer) == field


@pytest.mark.parametrize("n_items", HUGE)
@pytest.mark.parametrize("item_type", [STRING, ARRAY])
def test_an_array_of_strings_or_arrays_longer_than_any_is_refused(gguf_writer, item_type, n_items):
    gguf_writer.pair("a.b", u32(ARRAY, item_type) + u64(n_items) + bytes(64))
    assert field_of(gguf_writer) == "a.b length"


def test_an_array_of_strings_longer_than_the_file_is_refused(gguf_writer):
    gguf_writer.pair("a.b", u32(ARRAY, STRING) + u64(1000) + bytes(64))
    assert field_of(gguf_writer) == "a.b"


@pytest.mark.parametrize("length", [100, *HUGE])
def test_a_string_of_an_array_that_reaches_past_the_end_is_refused(gguf_writer, length):
    gguf_writer.pair("a.b", u32(ARRAY, STRING) + u64(3) + text(b"x") + u64(length) + bytes(20))
    assert field_of(gguf_writer) == "a.b[1]"


def test_an_array_that_ends_before_its_last_length_is_refused(gguf_writer):
    gguf_writer.alignment = 1
    gguf_writer.pair("a.b", u32(ARRAY, STRING) + u64(2) + text(b"eight bytes"))
    assert field_of(gguf_writer) == "a.b[1] length"


def test_a_string_of_an_array_that_is_not_utf8_is_named_when_read(gguf_writer):
    gguf_writer.pair("a.b", u32(ARRAY, STRING) + u64(3) + text(b"x") + text(b"\xff") + text(b"y"))
    strings = open_weights(gguf_writer.write()).metadata["a.b"]
    assert strings[2] == "y"
    for read in (list, lambda array: array[1], lambda array: array[:]):
        with pytest.raises(ModelFileError, match="not UTF-8") as caught:
            read(strings)
        assert caught.value.field == "a.b[1]"


def test_an_unknown_item_type_is_refused(gguf_writer):
    gguf_writer.pair("a.b", u32(ARRAY, 77) + u64(1) + bytes(16))
    assert field_of(gguf_writer) == "a.b item type"


def test_arrays_nest_to_a_limit(gguf_writer):
    gguf_writer.pair("a.b", u32(ARRAY) + (u32(ARRAY) + u64(1)) * 3 + u32(U8) + u64(1) + b"\7")
    assert open_weights(gguf_writer.write()).metadata["a.b"][0][0][0].tolist() == [7]
    gguf_writer.pairs = [text(b"a.b") + u32(ARRAY) + (u32(ARRAY) + u64(1)) * 100_000]
    error = refusal(gguf_writer)
    assert "nests" in str(error)


@pytest.mark.parametrize(
    ("budget", "item_type", "item"),
    [("MAX_STRINGS", STRING, text(b"x")), ("MAX_NESTED_ARRAYS", ARRAY, u32(U8) + u64(1) + b"x")],
)
def test_all_arrays_of_a_file_share_one_budget(gguf_writer, monkeypatch, budget, item_type, item):
    monkeypatch.setattr(gguf_metadata, budget, 5)
    three = u32(ARRAY, item_type) + u64(3) + item * 3
    gguf_writer.pair("a.b", three).pair("a.c", three)
    assert field_of(gguf_writer) == "a.c length"


def test_the_header_has_a_limit(gguf_writer, monkeypatch):
    monkeypatch.setattr(gguf_cursor, "MAX_HEADER_BYTES", 64)
    gguf_writer.pair("a.b", u32(STRING) + text(b"x" * 100))
    assert "header may take 64 bytes" in str(refusal(gguf_writer))


def test_a_sparse_file_of_gigabytes_is_refused_by_its_header(gguf_writer):
    gguf_writer.pair("a.b", u32(STRING) + u64(1 << 32))
    path = gguf_writer.write()
    os.truncate(path, 5 << 30)
    with pytest.raises(ModelFileError, match="67108864 at most"):
        open_weights(path)


@pytest.mark.parametrize("alignment", [0, 1, 4, 24, 1 << 17, (1 << 32) - 1])
def test_an_alignment_out_of_range_is_refused(gguf_writer, alignment):
    gguf_writer.pair("general.alignment", u32(U32, alignment))
    assert field_of(gguf_writer) == "general.alignment"


@pytest.mark.parametrize(
    "value", [u32(STRING) + text(b"32"), u32(BOOL) + b"\1", u32(6) + struct.pack("<f", 32)]
)
def test_an_alignment_of_another_kind_is_refused(gguf_writer, value):
    gguf_writer.pair("general.alignment", value)
    assert field_of(gguf_writer) == "general.alignment"


# The tensor directory.


@pytest.mark.parametrize("count", [2, *HUGE])
def test_more_tensors_than_the_file_can_hold_are_refused(gguf_writer, count):
    gguf_writer.n_tensors = count
    assert field_of(gguf_writer) == "tensor_count"


def test_tensor_names_must_be_utf8_short_not_empty_and_unique(gguf_writer):
    for name, field in [
        (b"\xff", "tensor 0 name"),
        (b"", "tensor 0 name"),
        (b"x" * 2000, "tensor 0 name length"),
    ]:
        gguf_writer.entries.clear()
        gguf_writer.tensor(name, (4,), F32, bytes(16))
        assert field_of(gguf_writer) == field
    gguf_writer.entries.clear()
    gguf_writer.tensor("a", (4,), F32, bytes(16)).tensor("a", (4,), F32, bytes(16))
    assert field_of(gguf_writer) == "tensor a"


@pytest.mark.parametrize("n_dimensions", [0, 5, (1 << 32) - 1])
def test_a_number_of_dimensions_out_of_range_is_refused(gguf_writer, n_dimensions):
    gguf_writer.entries.append(text(b"a") + u32(n_dimensions) + bytes(64))
    assert field_of(gguf_writer) == "tensor a n_dimensions"


@pytest.mark.parametrize("dims", [(0,), (32, 0), (0, 1 << 63)])
def test_a_dimension_of_zero_is_refused(gguf_writer, dims):
    gguf_writer.tensor("a", dims, F32, bytes(16))
    assert field_of(gguf_writer) == "tensor a dimensions"


@pytest.mark.parametrize("dims", [(1 << 63,), (1 << 62, 4), (1 << 32, 1 << 32), ((1 << 64) - 32,) * 4])
def test_dimensions_whose_product_overflows_are_refused(gguf_writer, dims):
    gguf_writer.tensor("a", dims, Q8_0, bytes(16))
    assert field_of(gguf_writer) == "tensor a offset"


@pytest.mark.parametrize("type_id", [i for i, e in ENCODING_OF_TYPE.items() if e.block_values > 1])
def test_rows_that_do_not_divide_into_blocks_are_refused(gguf_writer, type_id):
    gguf_writer.tensor("a", (16, 64), type_id, bytes(4096))
    assert field_of(gguf_writer) == "tensor a dimensions"


@pytest.mark.parametrize("type_id", REFUSED_TYPES)
def test_types_that_are_not_read_are_refused_by_name(gguf_writer, type_id):
    gguf_writer.tensor("blk.0.attn_q.weight", (256,), type_id, bytes(2048))
    message = str(refusal(gguf_writer, UnsupportedModel))
    assert (
        f"tensor blk.0.attn_q.weight is stored as {REFUSED_TYPES[type_id]}, which unspool does not" in message
    )
    assert all(encoding.label in message for encoding in Encoding)


@pytest.mark.parametrize("type_id", [42, 999, (1 << 32) - 1])
def test_a_type_that_nobody_knows_is_refused(gguf_writer, type_id):
    gguf_writer.tensor("a", (256,), type_id, bytes(2048))
    assert field_of(gguf_writer) == "tensor a type"


@pytest.mark.parametrize("offset", [1, 16, 33, 64, 1 << 40, 1 << 63, (1 << 64) - 32, (1 << 64) - 1])
def test_an_offset_off_its_place_is_refused(gguf_writer, offset):
    gguf_writer.data = bytes(64)
    gguf_writer.entries.append(text(b"a") + u32(1) + u64(4) + u32(F32) + u64(offset))
    assert field_of(gguf_writer) == "tensor a offset"


def test_tensors_that_share_bytes_are_refused(gguf_writer):
    gguf_writer.data = bytes(128)
    gguf_writer.entries.append(text(b"a") + u32(1) + u64(16) + u32(F32) + u64(0))
    gguf_writer.entries.append(text(b"b") + u32(1) + u64(4) + u32(F32) + u64(32))
    error = refusal(gguf_writer)
    assert (error.field, "inside the tensor before it" in str(error)) == ("tensor b offset", True)


def test_a_download_cut_short_says_so(small_gguf):
    path = small_gguf.write()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match=r"tensor b\.weight offset: .* download was cut short"):
        open_weights(path)
