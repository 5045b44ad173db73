"""The file that an evaluation goes on with: what it keeps, what it takes away, what it refuses."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from unspool.errors import BadRequest
from unspool.evals.answer_file import AnswerFile, Key
from unspool.evals.question import Answer

SETTINGS = {"benchmark": "b", "sample": {"temperature": 0.8, "stop": ("\n", "é")}}


def answer(branch, *, question="t", text="x\ny", **changed):
    given = {"finish_reason": "stop", "n_tokens": 3, "marks": {"passed": True, "score": None}}
    return Answer(question, "sample", branch, text, **{**given, **changed})


def line_with(**changed):
    """A line of an answer with something else in it; ... leaves it out."""
    value = {**asdict(answer(0)), **changed}
    return json.dumps({name: each for name, each in value.items() if each is not ...}).encode()


def kept(path, settings=SETTINGS, **how):
    with AnswerFile(path, settings, **how) as file:
        return {(key.question, key.branch): file[key] for key in map(key_of, range(4)) if key in file}


def key_of(branch):
    return Key("t", "sample", branch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.jsonl"


@pytest.fixture
def written(path):
    with AnswerFile(path, SETTINGS) as file:
        file.add([answer(0, text="\u2028 \n ü"), answer(1)])
        file.add([answer(2)])
    return path


def test_answers_come_back_as_they_were(written):
    with AnswerFile(written, SETTINGS) as file:
        assert len(file) == 3
        assert file[key_of(0)] == answer(0, text="\u2028 \n ü")
        assert key_of(2) in file
        assert key_of(3) not in file


def test_a_line_is_an_answer_and_the_first_says_what_they_were_made_with(written):
    head, *lines = map(json.loads, written.read_text().splitlines())
    assert head["settings"]["sample"] == {"temperature": 0.8, "stop": ["\n", "é"]}
    assert [line["branch"] for line in lines] == [0, 1, 2]


def test_an_answer_that_is_there_is_not_written_again(written):
    before = written.read_bytes()
    with AnswerFile(written, SETTINGS) as file:
        file.add([answer(1, text="another")])
        assert file[key_of(1)] == answer(1)
    assert written.read_bytes() == before


@pytest.mark.parametrize("n_torn", [1, 7, 60])
def test_a_last_line_that_was_torn_is_taken_away_and_written_again(written, n_torn):
    whole = written.read_bytes()
    written.write_bytes(whole[:-n_torn])
    assert set(kept(written)) == {("t", 0), ("t", 1)}
    with AnswerFile(written, SETTINGS) as file:
        file.add([answer(2)])
    assert written.read_bytes() == whole


def test_wherever_a_file_is_torn_it_can_be_gone_on_with(written):
    whole = written.read_bytes()
    for n_bytes in range(len(whole)):
        written.write_bytes(whole[:n_bytes])
        with AnswerFile(written, SETTINGS) as file:
            n_lines = whole[:n_bytes].count(b"\n")
            assert len(file) == max(0, n_lines - 1)
            file.add([answer(0, text="\u2028 \n ü"), answer(1), answer(2)])
        assert written.read_bytes() == whole


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (SETTINGS | {"benchmark": "c"}, "has answers with benchmark = 'b', and 'c' is asked for"),
        (SETTINGS | {"form": "raw"}, "has answers with form = None, and 'raw' is asked for"),
        ({"benchmark": "b"}, "and None is asked for"),
    ],
)
def test_other_settings_are_refused_with_the_way_out(written, settings, says):
    before = written.read_bytes()
    with pytest.raises(BadRequest, match="--out another file, or --fresh") as refused:
        AnswerFile(written, settings)
    assert says in str(refused.value)
    assert refused.value.code == "eval_mismatch"
    assert written.read_bytes() == before


def test_a_setting_that_has_a_name_is_no_search(written):
    with AnswerFile(written, SETTINGS | {"form": {"name": "beam", "depth": 1}}, fresh=True):
        pass
    with pytest.raises(BadRequest, match=r"has answers with form\.depth = 1, and 2 is asked for"):
        AnswerFile(written, SETTINGS | {"form": {"name": "beam", "depth": 2}})


def test_another_rounding_is_explained(written):
    with AnswerFile(written, SETTINGS | {"rounding": "a"}, fresh=True):
        pass
    with pytest.raises(BadRequest, match="another instruction set or processor") as refused:
        AnswerFile(written, SETTINGS | {"rounding": "b"})
    assert refused.value.code == "eval_mismatch"


@pytest.mark.parametrize(("version", "says"), [(1, "an earlier version"), (99, "a later version")])
def test_a_file_of_another_version_is_refused_as_such_and_may_be_forgotten(written, version, says):
    head, *lines = written.read_text().splitlines(keepends=True)
    lines = [line.replace('"question"', '"task"') for line in lines]
    written.write_text("".join([json.dumps(json.loads(head) | {"unspool_eval": version}) + "\n", *lines]))
    before = written.read_bytes()
    with pytest.raises(
        BadRequest, match=f"was written by {says} .*--out another file, or --fresh"
    ) as refused:
        AnswerFile(written, SETTINGS)
    assert refused.value.code == "eval_mismatch"
    assert written.read_bytes() == before
    assert kept(written, fresh=True) == {}


def test_fresh_forgets_what_is_there(written):
    assert kept(written, {"benchmark": "c"}, fresh=True) == {}
    assert kept(written, {"benchmark": "c"}) == {}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "notes\n",
        "notes",
        '{"a": 1}\n',
        "[]\n",
        '{"unspool_eval": 2}\n',
        '{"unspool_eval": 0, "settings": {}}\n',
        "\n",
    ],
)
def test_a_file_of_something_else_is_left_as_it_is(path, text, fresh):
    path.write_text(text)
    with pytest.raises(BadRequest, match="line 1 is") as refused:
        AnswerFile(path, SETTINGS, fresh=fresh)
    assert refused.value.code == "eval_file"
    assert path.read_text() == text


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"nothing",
        b"[1]",
        b"\xff",
        line_with(n_tokens=...),
        line_with(more=1),
        line_with(series="other"),
        line_with(branch=True),
        line_with(finish_reason="why"),
        line_with(marks=[]),
    ],
)
def test_a_damaged_line_in_the_middle_is_named(written, line):
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join([*lines[:2], line + b"\n", *lines[2:]]))
    with pytest.raises(BadRequest, match="line 3 is"):
        AnswerFile(written, SETTINGS)


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "answers.jsonl"):
        with pytest.raises(BadRequest, match="give --out another file"):
            AnswerFile(path, SETTINGS)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("path", ["/dev/full", "/dev/null"])
def test_a_device_is_refused_unread(path):
    with pytest.raises(BadRequest, match="keeps nothing; give --out another file"):
        AnswerFile(Path(path), SETTINGS)
