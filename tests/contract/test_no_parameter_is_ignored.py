"""Every field of DecodingParams changes what comes out, what is reported, or is refused: none is ignored.

For each field two values, beside what gives them a meaning, on the toy engine. A field without a case
fails the walk, so a new one cannot be forgotten. The same beside every search, and for the settings of
searches themselves.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from toy_engine import LETTERS, Told, ToyAmateur, drain

from unspool.engine.engine import Engine
from unspool.errors import BadRequest, ParameterConflict
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.search.diverse_beam import DiverseBeam
from unspool.search.named import SEARCHES
from unspool.search.stochastic_beam import StochasticBeam
from unspool.types import Request

PROMPTS = [(1, 2, 3, 1, 2, 3, 1, 2), (4, 1, 1, 2), (7, 2, 5, 6, 3, 5, 6, 3)]
BASE = {"seed": 5, "max_tokens": 24, "ignore_eos": True, "temperature": 1.5}


def case(field, one, other, **beside):
    return field, one, other, beside


CASES = [
    case("temperature", 0.5, 2),
    case("dynatemp_min", 0.1, 1.5, temperature=1, dynatemp_max=2),
    case("dynatemp_max", 0.6, 4, temperature=1, dynatemp_min=0.5),
    case("dynatemp_exponent", 0.2, 5, temperature=1, dynatemp_min=0.1, dynatemp_max=3),
    case("edt_theta", 0, 2),
    case("edt_base", 0.2, 0.9, edt_theta=2),
    case("smoothing_factor", 0, 1, temperature=1),
    case("smoothing_curve", 1, 3, temperature=1, smoothing_factor=0.2),
    case("top_n_sigma", 0, 0.5),
    case("top_k", 0, 2),
    case("top_p", 1, 0.5),
    case("min_p", 0, 0.5),
    case("typical_p", 1, 0.3),
    case("top_h", 1, 0.3),
    case("epsilon_cutoff", 0, 0.3),
    case("eta_cutoff", 0, 0.4),
    case("top_a", 0, 1),
    case("tfs_z", 1, 0.2),
    case("xtc_probability", 0, 1, xtc_threshold=0.1),
    case("xtc_threshold", 0.05, 0.4, xtc_probability=1),
    case("mirostat", 0, 1, mirostat_tau=0.5),
    case("mirostat", 0, 2, mirostat_tau=0.5),
    case("mirostat_tau", 0.3, 3, mirostat=2),
    case("mirostat_eta", 0.01, 1, mirostat=2, mirostat_tau=1),
    case("adaptive_target", None, 0.2),
    case("adaptive_decay", 0, 0.95, adaptive_target=0.4),
    case("repetition_penalty", 1, 3),
    case("frequency_penalty", 0, 2),
    case("presence_penalty", 0, 2),
    case("penalty_scope", "prompt", "output", repetition_penalty=3),
    case("penalty_scope", "default", "all", presence_penalty=2),
    case("penalty_window", None, 2, frequency_penalty=2),
    case("penalty_exclude_ids", (), (1, 2, 3), repetition_penalty=3),
    case("penalty_exclude_template", False, True, repetition_penalty=3, penalty_scope="prompt"),
    case("dry_multiplier", 0, 5),
    case("dry_base", 1, 10, dry_multiplier=0.5, dry_allowed_length=1),
    case("dry_allowed_length", 1, 4, dry_multiplier=5),
    case("dry_window", None, 3, dry_multiplier=5, dry_allowed_length=1),
    case("dry_breakers", (), ("b",), dry_multiplier=5, dry_allowed_length=1),
    case("no_repeat_ngram_size", 0, 1, max_tokens=3),
    case("bad_words", (), ("ab",)),
    case("banned_token_ids", (), (1, 2)),
    case("allowed_token_ids", None, (1, 2)),
    case("logit_bias", {}, {3: 5.0}),
    case("logit_bias", {}, {"ab": False}),
    case("logit_bias", {"a": 3.0}, {"a": -3.0}),
    case("guidance_scale", 1, 3),
    case("negative_prompt", None, "ba", guidance_scale=2),
    case("negative_prompt", (1, 2), (3, 4), guidance_scale=2),
    case("contrast_beta", 0, 2),
    case("contrast_alpha", 0, 0.8, contrast_beta=0.5),
    case("min_tokens", 0, 20, ignore_eos=False, logit_bias={0: 10}),
    case("min_tokens", 0, 20, stop=("a", "b", " ", "\n")),
    case("order", "unspool", ("top_p", "temperature"), temperature=3, top_p=0.6),
    case("order", "unspool", "llama.cpp", temperature=3, top_p=0.6),
    case("order", "unspool", "vllm", min_p=0.3, top_p=0.6),
    case("order", "unspool", "transformers", temperature=3, top_p=0.6, top_h=0.7),
    case("logprobs", None, 0),
    case("logprobs", 0, 2),
    case("prompt_logprobs", None, 0),
    case("prompt_logprobs", 0, 2),
    case("trace", False, True),
    case("seed", 1, 2),
    case("seed", None, 7),
    case("max_tokens", 3, 4),
    case("max_tokens", None, 40),
    case("stop", (), ("a", "b")),
    case("stop_regex", (), (r"\s|[ab]{2}",)),
    case("stop_token_ids", (), (1, 2)),
    case("ignore_eos", True, False),
    case("include_stop", False, True, stop=("a", "b")),
    case("include_stop", False, True, stop_regex=("a|b",)),
    case("include_stop", False, True, stop_token_ids=(1, 2)),
    case("deadline_s", None, 3),
    case("loop_min_count", 0, 2, loop_max_length=1),
    case("loop_max_length", 1, 8, loop_min_count=2, allowed_token_ids=(1, 2, 3)),
]
TEMPLATE = frozenset(range(4))  # positions of each prompt that a chat template is said to have written


def name_of(case):
    field, one, other, _ = case
    return f"{field}-{one}-{other}"


def outcomes(params, search=None):
    """All that requests with these parameters tell, but for times. A forward pass takes a second."""
    clock = SimpleNamespace(now_s=0.0)

    class Runner(ToyRunner):
        def forward(self, plan):
            clock.now_s += 1
            return super().forward(plan)

    amateur = ToyAmateur(n_pages=256)
    engine = Engine(Runner(n_pages=256), LETTERS, clock=lambda: clock.now_s, amateur=amateur)
    told = {engine.add(Request(prompt, params, TEMPLATE, search=search)): Tellings() for prompt in PROMPTS}
    events = {request_id: [] for request_id in told}
    step = engine.step

    def spy():
        news = step()
        for event in news:
            events[event.request_id].append(event)
        return news

    engine.step = spy
    drain(engine, told)
    return [
        (
            {branch: (*one.result, one.last.seed, one.last.score) for branch, one in each.of_branch.items()},
            [one.last.error and one.last.error.code for one in each.of_branch.values()],
            [(e.logprobs, e.prompt_logprobs, len(e.trace)) for e in events[request_id]],
        )
        for request_id, each in told.items()
    ]


class Tellings:
    """What is told of each answer of a request."""

    def __init__(self):
        self.of_branch = {}

    def hear(self, event):
        self.of_branch.setdefault(event.branch, Told()).hear(event)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_another_value_gives_another_outcome_and_the_same_value_the_same(case):
    field, one, other, beside = case
    first, second = (DecodingParams(**{**BASE, **beside, field: value}) for value in (one, other))
    assert outcomes(second) != outcomes(first)
    if second.seed is not None:
        assert outcomes(second) == outcomes(second)


def test_every_field_has_a_case():
    fields = {field.name for field in dataclasses.fields(DecodingParams)}
    assert fields == {field for field, *_ in CASES}


@pytest.mark.parametrize(
    ("field", "value"),
    dict.fromkeys((field, other) for field, _, other, _ in CASES if not isinstance(other, dict)),
)
@pytest.mark.parametrize("temperature", [0, 1])
def test_what_is_said_to_be_unused_changes_nothing(field, value, temperature):
    plain = DecodingParams(**{**BASE, "temperature": temperature})
    try:
        params = plain.replace(**{field: value})
    except BadRequest:  # one of two that go together
        return
    if field in params.unused():
        assert outcomes(params) == outcomes(plain)


BESIDE_SEARCHES = {
    "beam": Beam(width=2, n_best=2),
    "diverse-beam": DiverseBeam(width=4, n_best=2),
    "beam-sample": BeamSample(width=2),
    "stochastic-beam": StochasticBeam(k=2),
    "constrained-beam": ConstrainedBeam(phrases=[[[5, 5], [5, 3]]], width=4),
}


def taken(params, search):
    """What comes of parameters beside a search; what says so where they are refused."""
    try:
        return outcomes(DecodingParams(**params), search)
    except BadRequest as refusal:
        return str(refusal)


@pytest.mark.parametrize("search", BESIDE_SEARCHES)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_beside_a_search_another_value_gives_another_outcome_or_is_refused(case, search):
    field, one, other, beside = case
    kind = BESIDE_SEARCHES[search]
    base = {**BASE, "max_tokens": 12}
    if not kind.draws:
        base = {name: value for name, value in base.items() if name not in ("temperature", "seed")}
    told = [taken({**base, **beside, field: value}, kind) for value in (one, other)]
    assert told[0] != told[1] or isinstance(told[0], str), f"{field} changes nothing in a {search} search"


@pytest.mark.parametrize("search", ["beam", "diverse-beam", "constrained-beam"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_search_that_draws_nothing_refuses_a_seed(search, temperature):
    with pytest.raises(ParameterConflict) as refused:
        outcomes(DecodingParams(seed=7, temperature=temperature), BESIDE_SEARCHES[search])
    assert str(refused.value) == (
        f"seed=7 has no meaning in a {search.replace('-', ' ')} search, which draws nothing; leave it out, "
        "or take a search that draws, as Sample and BeamSample do"
    )
    assert (refused.value.code, refused.value.names) == ("conflicting_parameters", ("seed",))


SETTINGS = [
    (Beam, "width", 1, 4, {}),
    (Beam, "n_best", 1, 2, {}),
    (Beam, "length_norm", "power", "gnmt", {"alpha": 2.0}),
    (Beam, "length_norm", "power", "none", {}),
    (Beam, "alpha", -2.0, 2.0, {}),
    (Beam, "alpha", -2.0, 2.0, {"length_norm": "none"}),
    (Beam, "early_stopping", True, False, {"alpha": 3.0}),
    (DiverseBeam, "groups", 2, 4, {}),
    (DiverseBeam, "strength", 0, 3, {}),
    (StochasticBeam, "k", 1, 3, {}),
    (ConstrainedBeam, "phrases", [[[5, 5]]], [[[7]]], {}),
]


@pytest.mark.parametrize(("kind", "field", "one", "other", "beside"), SETTINGS)
def test_another_setting_of_a_search_gives_another_outcome_or_is_refused(kind, field, one, other, beside):
    params = DecodingParams(seed=5 if kind.draws else None, max_tokens=12)
    own = {"phrases": [[[5, 5]]]} if kind is ConstrainedBeam else {}
    told = []
    for value in (one, other):
        try:
            told.append(outcomes(params, kind(**{**own, **beside, field: value})))
        except BadRequest as refusal:
            told.append(str(refusal))
    assert told[0] != told[1]


def test_every_search_and_every_setting_has_a_case():
    assert BESIDE_SEARCHES.keys() == SEARCHES.keys()
    settings = {name for kind in BESIDE_SEARCHES.values() for name in fields_of(kind)}
    assert settings == {field for _, field, *_ in SETTINGS}


def fields_of(search):
    return {field.name for field in dataclasses.fields(search) if field.name != "compiled"}
