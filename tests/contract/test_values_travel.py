"""Every value that the package hands out or takes can be copied and sent to another process.

A public type without a sample fails the walk, so a new one cannot be forgotten.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import importlib
import inspect
import pickle

import pytest
from tiny_llm import write_tiny_llm

import unspool
from unspool import errors
from unspool.search.pass_at_k import wilson
from unspool.search.verifiers import registry
from unspool.search.verifiers.arithmetic import Arithmetic
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.citations import Citations
from unspool.search.verifiers.function import Function
from unspool.search.verifiers.http_reward import HttpReward
from unspool.search.verifiers.json_schema import JsonSchema
from unspool.search.verifiers.llm_judge import LlmJudge
from unspool.search.verifiers.logprob import MeanLogprob, NormalisedLogprob, SumLogprob
from unspool.search.verifiers.majority import Majority
from unspool.search.verifiers.person import Person
from unspool.search.verifiers.python_tests import PythonExamples, PythonTests
from unspool.search.verifiers.regex import Regex

NO_VALUES = {
    "LLM",
    "AsyncLLM",
    "EventStream",
    "AsyncEventStream",
    "kv_memory",
    "quantize_file",
    "__version__",
}
PARAMS = unspool.DecodingParams(
    seed=3,
    max_tokens=4,
    logprobs=2,
    prompt_logprobs=1,
    trace=True,
    logit_bias={5: -1.0, "a": False},
    stop="x",
)


def length_of(prompt, text):
    return float(len(text))


VERIFIERS = [
    MeanLogprob(),
    SumLogprob(),
    NormalisedLogprob(),
    Regex(r"(?i:a)"),
    JsonSchema({"type": "object"}),
    PythonTests("assert True"),
    PythonExamples(),
    Arithmetic(7),
    Majority(Regex(r"\w")),
    Citations({"a": "the text"}),
    Function(length_of),
    HttpReward("http://localhost:1", headers={"a": "b"}),
    LlmJudge("http://localhost:1", "judge"),
    Person(),
]
ERRORS = [
    unspool.UnspoolError("it failed", code="other"),
    unspool.BadRequest(f"{errors.named('n', 3)} is wrong", way_out="leave it out", code="bad_n"),
    errors.ParameterConflict("they differ", ("a", "b"), way_out="keep one"),
    errors.ModelFileError("a.gguf", "header", "is torn"),
    errors.SessionFileError("a.session", "header", "is torn", code="other"),
]


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> list[object]:
    """Values as the doors give them, and as they are given to the doors."""
    folder = tmp_path_factory.mktemp("values")
    path = write_tiny_llm(folder / "tiny.gguf")
    events, notes = [], []
    with unspool.LLM(path, threads=1) as llm:
        with llm.stream("ab", PARAMS) as stream:
            events += stream
        answers = llm.generate(["ab", "c"], PARAMS)
        beam = llm.generate("ab", PARAMS.replace(seed=None), n=2, search=unspool.Beam(width=3, n_best=2))
        failed = dataclasses.replace(answers[0], finish_reason="error")
        notes += [llm.save_session(folder / "s", "abc", note={"a": [1]}), llm.save_session(folder / "t", "b")]
        notes.append(llm.load_session(folder / "s"))
        report = llm.best("ab", unspool.BestOf(n=3, verifier=Majority(Regex("."))), PARAMS)
        values = [*events, *answers, *beam, failed, *notes, report, llm.score("abcdef"), llm.stats()]
        values += [beam[0].search_tree, answers[0].trace[0], answers[0].usage.inter_token]
        values += [answers[0].usage, answers[0].logprobs[0], answers[0].logprobs[0].token]
        values += asyncio.run(_awaited(llm))
    phrases = unspool.ConstrainedBeam(phrases=["a", ["b", [1, 2]]])
    searches = [
        unspool.Beam(),
        unspool.BeamSample(),
        unspool.DiverseBeam(),
        unspool.StochasticBeam(),
        phrases,
    ]
    best_of = [unspool.BestOf(n=2, verifier=each) for each in VERIFIERS]
    return [
        *(*values, *searches, *best_of, unspool.kv_memory(path), *VERIFIERS, *ERRORS),
        *(PARAMS, unspool.Limits(), Verdict(1.0, True, "a"), wilson(3, 4)),
        *(unspool.Event(0, "", (), finish_reason="error", error=each) for each in ERRORS),
    ]


async def _awaited(llm) -> list[object]:
    door = unspool.AsyncLLM.of(llm)
    return [*await door.generate(["ab"], PARAMS), door.stats()]


def same(one: object, other: object) -> bool:
    if isinstance(one, unspool.UnspoolError):
        return (type(one), str(one), vars(one)) == (type(other), str(other), vars(other))
    if isinstance(one, tuple) and hasattr(one, "_fields"):
        return type(one) is type(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


WAYS = {
    "copied": copy.copy,
    "copied through and through": copy.deepcopy,
    **{
        f"sent by protocol {number}": lambda value, number=number: pickle.loads(pickle.dumps(value, number))
        for number in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_the_same_when_it_has_been(way, samples):
    for value in samples:
        assert same(value, WAYS[way](value)), repr(value)


def test_a_value_can_be_taken_apart(samples):
    for value in samples:
        if dataclasses.is_dataclass(value):
            assert dataclasses.asdict(value).keys() == {field.name for field in dataclasses.fields(value)}


def test_what_has_travelled_still_works():
    for regex in (Regex(r"(?i:a)b"), Regex("x", whole=True)):
        again = pickle.loads(pickle.dumps(regex))
        assert again.ignores_case == regex.ignores_case
    conflict = pickle.loads(pickle.dumps(ERRORS[2]))
    assert conflict.names == ("a", "b")
    assert conflict.worded({}) == "they differ; keep one"
    worded = pickle.loads(pickle.dumps(ERRORS[1])).worded({"n": "-n"})
    assert worded == "-n 3 is wrong; leave it out"


def test_every_public_type_has_a_sample(samples):
    kinds = {kind for value in samples for kind in type(value).__mro__}
    public = {name: getattr(unspool, name) for name in unspool.__all__ if name not in NO_VALUES}
    assert [name for name, kind in public.items() if kind not in kinds] == []


def test_every_verifier_and_every_kind_of_error_has_a_sample():
    made = {type(each) for each in VERIFIERS}
    for name, home in registry.BUILT_IN.items():
        module, kind = home.split(":")
        assert getattr(importlib.import_module(f"unspool.search.verifiers.{module}"), kind) in made, name
    own_constructors = {type(each) for each in ERRORS}
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, unspool.UnspoolError) and "__init__" in vars(kind):
            assert kind in own_constructors, kind
