"""UNSPOOL_PROFILE: a timeline of the last steps, written when the model is closed."""

from __future__ import annotations

import itertools
import json
import os

import pytest
from tiny_llm import write_tiny_llm

from unspool import timeline
from unspool.errors import BadRequest
from unspool.llm import LLM
from unspool.params import DecodingParams


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.mark.parametrize("runner", ["native", "reference"])
def test_a_step_is_shown_with_its_parts_in_order_and_every_instruction_inside_its_forward_pass(
    runner, path, tmp_path, monkeypatch
):
    trace = tmp_path / "trace.json"
    monkeypatch.setenv("UNSPOOL_PROFILE", str(trace))
    with LLM(path, runner=runner) as llm:
        llm.generate("ab", DecodingParams(temperature=0, max_tokens=3, ignore_eos=True))
    events = json.loads(trace.read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = [event for event in events if event["ph"] == "X"]
    steps = [event for event in spans if event["tid"] == 0]
    assert [event["name"] for event in steps] == ["plan", "forward", "pipeline", "commit"] * 3
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in itertools.pairwise(steps))
    on_threads = [event for event in spans if event["tid"] > 0]
    if runner == "reference":
        assert rows == {0: "engine"}
        assert on_threads == []
        return
    assert rows[1] == "thread 0"
    assert {"embedding", "products", "attention", "output"} <= {event["cat"] for event in on_threads}
    forwards = [event for event in steps if event["name"] == "forward"]
    for event in on_threads:
        inside = [
            f for f in forwards if f["ts"] <= event["ts"] and event["ts"] + event["dur"] <= f["ts"] + f["dur"]
        ]
        assert len(inside) == 1, event


def test_only_the_last_steps_are_kept(path, tmp_path, monkeypatch):
    trace = tmp_path / "trace.json"
    monkeypatch.setenv("UNSPOOL_PROFILE", str(trace))
    monkeypatch.setattr(timeline, "N_STEPS", 2)
    with LLM(path, runner="native") as llm:
        llm.generate("ab", DecodingParams(temperature=0, max_tokens=6, ignore_eos=True))
    events = json.loads(trace.read_text())["traceEvents"]
    assert [event["name"] for event in events if event["tid"] == 0 and event["ph"] == "X"].count(
        "forward"
    ) == 2


@pytest.mark.parametrize("value", ["", "0"])
def test_nothing_is_noted_unless_it_is_asked_for(value, path, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSPOOL_PROFILE", value)
    monkeypatch.chdir(tmp_path)
    with LLM(path, runner="native") as llm:
        llm.generate("ab", DecodingParams(temperature=0, max_tokens=2))
    assert list(tmp_path.iterdir()) == []


def test_1_names_the_file_after_the_process(path, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSPOOL_PROFILE", "1")
    monkeypatch.chdir(tmp_path)
    with LLM(path, runner="native"):
        pass
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("unspool-profile-")
    assert json.loads(file.read_text())["traceEvents"][0]["args"]["name"] == "engine"


def test_a_folder_that_is_not_there_is_refused_before_anything_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSPOOL_PROFILE", str(tmp_path / "none" / "trace.json"))
    with pytest.raises(BadRequest, match="there is no folder"):
        LLM(path, runner="native")
    monkeypatch.setenv("UNSPOOL_PROFILE", str(tmp_path))
    with pytest.raises(BadRequest, match="is a folder; give the name of a file"):
        LLM(path, runner="native")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("UNSPOOL_PROFILE", str(tmp_path / "pipe"))
    with pytest.raises(BadRequest, match="is no regular file; give another name, or 1"):
        LLM(path, runner="native")
