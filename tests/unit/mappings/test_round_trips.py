"""What a dialect can say comes back the same: from_x(to_x(params)) == params."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from unspool.errors import BadRequest
from unspool.mappings import DIALECTS
from unspool.mappings.dialect import read, write
from unspool.params import RANGES, DecodingParams

NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.sampled_from([0.0, 0.02, 0.5, 1.0, 1.5, 2.0, 3.0]),
    "top_k": st.integers(0, 60),
    "top_p": st.sampled_from([0.1, 0.5, 0.95, 1.0]),
    "min_p": st.sampled_from([0.0, 0.05, 1.0]),
    "typical_p": st.sampled_from([0.2, 1.0]),
    "top_h": st.sampled_from([0.4, 1.0]),
    "top_n_sigma": st.sampled_from([0.0, 1.5]),
    "epsilon_cutoff": st.sampled_from([0.0, 0.01]),
    "eta_cutoff": st.sampled_from([0.0, 0.01]),
    "xtc_probability": st.sampled_from([0.0, 0.5]),
    "xtc_threshold": st.sampled_from([0.1, 0.2]),
    "mirostat": st.sampled_from([0, 0, 1, 2]),
    "mirostat_tau": st.sampled_from([5.0, 3.0]),
    "repetition_penalty": st.sampled_from([0.9, 1.0, 1.1]),
    "frequency_penalty": st.sampled_from([-2.0, 0.0, 0.5]),
    "presence_penalty": st.sampled_from([-1.0, 0.0, 2.0]),
    "penalty_window": st.sampled_from([None, 1, 64, 2**31 - 1]),
    "dry_multiplier": st.sampled_from([0.0, 0.8]),
    "dry_window": st.sampled_from([None, 100]),
    "no_repeat_ngram_size": st.integers(0, 3),
    "min_tokens": st.integers(0, 9),
    "max_tokens": st.sampled_from([None, 10, 512]),
    "seed": st.sampled_from([None, 0, 7, 2**32, 2**64 - 1]),
    "logprobs": st.sampled_from([None, 0, 5, 20, 21]),
    "prompt_logprobs": st.sampled_from([None, 0, 3]),
    "deadline_s": st.sampled_from([None, 1.5, 0.0005]),
    "adaptive_target": st.sampled_from([None, 0.0, 0.4]),
    "dynatemp_min": st.sampled_from([None, 0.5]),
}
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "order": st.sampled_from(
        [
            "unspool",
            "vllm",
            "llama.cpp",
            "transformers",
            ("llama.cpp", "bias", "top_k", "temperature", "adaptive"),
        ]
    ),
    "stop": st.lists(st.sampled_from(["a", "\n", "END", "é", "x"]), max_size=5, unique=True).map(tuple),
    "stop_token_ids": st.sampled_from([(), (3,), (3, 4)]),
    "logit_bias": st.sampled_from(
        [(), ((3, 1.5),), ((3, False),), (("word", 2.0),), ((3, -100.0), (4, 1.0))]
    ),
    "bad_words": st.sampled_from([(), ("bad",)]),
    "banned_token_ids": st.sampled_from([(), (9,)]),
    "allowed_token_ids": st.sampled_from([None, (1, 2, 3)]),
    "ignore_eos": st.booleans(),
    "include_stop": st.booleans(),
    "dry_breakers": st.sampled_from([(), ("\n",)]),
}
ANY = NUMBERS | OTHERS


@st.composite
def some_params(draw, order):
    """A few parameters, mostly in the dialect's own order."""
    names = draw(st.lists(st.sampled_from(sorted(set(ANY) - {"order"})), max_size=6, unique=True))
    chosen = {name: draw(ANY[name]) for name in names}
    chosen["order"] = draw(ANY["order"]) if draw(st.integers(0, 9)) == 0 else order
    if chosen.get("dynatemp_min") is not None:
        chosen["dynatemp_max"] = 1.5
    try:
        return DecodingParams(**chosen)
    except BadRequest:
        assume(False)
        raise


@pytest.mark.parametrize("name", DIALECTS)
@given(data=st.data())
def test_what_a_dialect_can_say_comes_back_the_same(name, data):
    dialect = DIALECTS[name]
    params = data.draw(some_params(dialect.order))
    theirs, lost = write(dialect, params)
    if not lost:
        assert read(dialect, theirs)[0] == params
    for change in lost:
        assert change.our_name in {each.name for each in fields(DecodingParams)}
        assert change.their_name is None
        assert change.note


@pytest.mark.parametrize("name", DIALECTS)
def test_defaults_in_the_dialects_own_order_can_be_said(name):
    params = DecodingParams(order=DIALECTS[name].order)
    theirs, lost = write(DIALECTS[name], params)
    assert lost == ()
    assert read(DIALECTS[name], theirs)[0] == params


@pytest.mark.parametrize("name", DIALECTS)
def test_every_parameter_is_written_or_named_as_lost(name):
    """Each parameter in turn is given a value that is not its default."""
    dialect = DIALECTS[name]
    plain = write(dialect, DecodingParams(order=dialect.order))[0]
    values: dict[str, Any] = {
        each.name: 3 if each.name in RANGES and RANGES[each.name].integer else 0.25
        for each in fields(DecodingParams)
    }
    values |= {
        "dynatemp_max": None, "mirostat": 2, "smoothing_curve": 2.0, "temperature": 0.5, "dry_base": 2.0,
        "penalty_scope": "output", "order": "vllm" if dialect.order == "unspool" else "unspool",
        "penalty_exclude_template": True, "trace": True, "ignore_eos": True, "include_stop": True,
        "dry_breakers": ("x",), "bad_words": ("x",), "stop": ("x",), "stop_regex": ("x",),
        "penalty_exclude_ids": (1,), "banned_token_ids": (1,), "allowed_token_ids": (1,),
        "stop_token_ids": (1,), "logit_bias": {1: 2.0}, "negative_prompt": (1,),
    }  # fmt: skip
    for each in fields(DecodingParams):
        if each.name == "dynatemp_max":
            continue
        more = {"dynatemp_max": 1.5} if each.name == "dynatemp_min" else {}
        try:
            params = DecodingParams(**{"order": dialect.order, each.name: values[each.name], **more})
        except BadRequest as error:
            assert error.code == "bad_order", each.name  # noqa: PT017 -- the engine's order has no such stage
            continue
        theirs, lost = write(dialect, params)
        assert theirs != plain or each.name in {change.our_name for change in lost}, each.name
