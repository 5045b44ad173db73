"""Reports as plain JSON: nothing lost, and nothing that a strict reader refuses."""

from __future__ import annotations

import dataclasses
import json
import math

from searching import answers_of, params
from toy_traces import toy_trace

from unspool.cli.report_json import ranges, reports_of, trace_dict
from unspool.params import DecodingParams
from unspool.search.beam import Beam
from unspool.types import Event, TokenLogprob, TokenLogprobs

CHOSEN = TokenLogprob(3, "\\xe4", b"\xe4", -0.5, -0.25)
CUT = TokenLogprob(4, "x", b"x", -3.0, -math.inf)
PROMPT = TokenLogprob(5, "y", b"y", -1.0, None)


def test_a_report_is_there_when_it_was_asked_for():
    events = [
        Event(0, "", (3,), logprobs=(TokenLogprobs(CHOSEN, 1, (CHOSEN, CUT), (CHOSEN,)),)),
        Event(0, "", (3,), prompt_logprobs=(TokenLogprobs(PROMPT, 2, (PROMPT,), ()),)),
    ]
    assert reports_of(events, DecodingParams()) == {}
    asked = reports_of(events, DecodingParams(logprobs=2, prompt_logprobs=1, trace=True))
    json.dumps(asked, allow_nan=False)
    [entry], [prompt] = asked["logprobs"], asked["prompt_logprobs"]
    assert (entry["token_id"], entry["text"], entry["token_bytes"]) == (3, "\\xe4", [0xE4])
    assert (entry["logprob"], entry["logprob_final"], entry["rank"]) == (-0.5, -0.25, 1)
    assert [each["logprob_final"] for each in entry["top"]] == [-0.25, None], "-inf is no JSON"
    assert [each["token_id"] for each in entry["top_final"]] == [3]
    assert (prompt["logprob"], prompt["rank"], len(prompt["top"])) == (-1.0, 2, 1)
    assert "logprob_final" not in prompt
    assert "top_final" not in prompt
    assert asked["trace"] == []


def test_a_trace_has_every_removed_id():
    trace = toy_trace()
    told = json.loads(json.dumps(trace_dict(trace), allow_nan=False))
    for i, stage in enumerate(told["stages"]):
        ids = [n for first, last in stage["removed_id_ranges"] for n in range(first, last + 1)]
        assert ids == trace.removed_ids(i)
        assert len(ids) == stage["n_before"] - stage["n_after"]
    assert told["prob"] == trace.chosen.prob
    assert [each["token_id"] for each in told["candidates"]] == [c.token_id for c in trace.candidates]


def test_ids_without_a_gap_are_one_range():
    assert ranges([]) == []
    assert ranges([0, 1, 2, 5, 7, 8]) == [[0, 2], [5, 5], [7, 8]]


def test_a_search_tree_has_every_step():
    tree = answers_of(Beam(width=2, n_best=2), asked=params(trace=True))[0][-1].search_tree
    told = reports_of([Event(0, "", (), search_tree=tree)], DecodingParams(trace=True))["search_tree"]
    told = json.loads(json.dumps(told, allow_nan=False))
    assert [(a["branch"], a["score"]) for a in told["answers"]] == list(tree.answers)
    for shown, step in zip(told["steps"], tree.steps, strict=True):
        assert shown["n_tokens"] == step.n_tokens
        assert shown["given_up"] == list(step.given_up)
        for each, considered in zip(shown["considered"], step.considered, strict=True):
            assert each == {name: getattr(considered, name) for name in each}
            assert set(each) == {field.name for field in dataclasses.fields(considered)}
    assert told["n_untold"] == 0
