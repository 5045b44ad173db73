"""llama.cpp's and ollama's names."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.mappings.samplers import read_samplers, written_samplers
from unspool.param_conflicts import ORDERS, stages_of
from unspool.params import DecodingParams

from_llama_cpp = DecodingParams.from_llama_cpp
from_ollama = DecodingParams.from_ollama
THEIR_DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "max_tokens": None}


def llama_cpp_params(**more):
    return DecodingParams(**(THEIR_DEFAULTS | {"order": "llama.cpp"} | more))


def notes(changes):
    return {change.their_name: change.note for change in changes}


def test_llama_cpps_defaults_are_filled_in_and_told():
    params, changes = from_llama_cpp({})
    assert params == llama_cpp_params()
    assert set(notes(changes)) == {"temperature", "top_k", "top_p", "min_p", "n_predict"}
    assert changes[0].their_value is None
    assert changes[0].our_value == 0.8


def test_ollamas_defaults_are_filled_in_and_told():
    params, changes = from_ollama({})
    assert params == llama_cpp_params(top_p=0.9, min_p=0.0, repetition_penalty=1.1)
    assert set(notes(changes)) == {"temperature", "top_k", "top_p", "repeat_penalty", "num_predict"}


def test_every_sampling_option_is_read():
    params, _ = from_llama_cpp(
        {
            "temp": 1.0,
            "dynatemp_exponent": 1.5,
            "top_k": 5,
            "top_p": 1.0,
            "min_p": 0,
            "top_n_sigma": 1.5,
            "typ_p": 0.9,
            "xtc_probability": 0.5,
            "xtc_threshold": 0.2,
            "repeat_penalty": 1.2,
            "repeat_last_n": 32,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "dry_multiplier": 0.8,
            "dry_base": 1.5,
            "dry_allowed_length": 3,
            "dry_penalty_last_n": -1,
            "dry_sequence_breakers": ["\n"],
            "samplers": "edskypmxta",
            "adaptive_target": 0.4,
            "adaptive_decay": 0.5,
            "seed": 5,
            "stop": ["x"],
            "n_predict": 20,
            "ignore_eos": True,
            "n_probs": 4,
            "t_max_predict_ms": 1500,
            "logit_bias": [[15043, 1.0], ["Hello", -0.5], [7, False]],
        }
    )
    assert params == DecodingParams(
        order="llama.cpp",
        dynatemp_exponent=1.5,
        top_k=5,
        top_n_sigma=1.5,
        typical_p=0.9,
        xtc_probability=0.5,
        xtc_threshold=0.2,
        repetition_penalty=1.2,
        penalty_window=32,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        dry_multiplier=0.8,
        dry_base=1.5,
        dry_allowed_length=3,
        dry_window=2**31 - 1,
        dry_breakers=["\n"],
        adaptive_target=0.4,
        adaptive_decay=0.5,
        seed=5,
        stop="x",
        max_tokens=20,
        ignore_eos=True,
        logprobs=4,
        deadline_s=1.5,
        logit_bias=[(15043, 1.0), ("Hello", -0.5), (7, False)],
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"n_predict": -1}, {"max_tokens": None}),
        ({"n_predict": -2}, {"max_tokens": None}),
        ({"seed": -1}, {"seed": None}),
        ({"seed": 2**32 - 1}, {"seed": None}),
        ({"top_k": 0}, {"top_k": 0}),
        ({"top_k": -1}, {"top_k": 0}),
        ({"top_p": 1.5}, {"top_p": 1.0}),
        ({"top_p": 0}, {"top_p": 1e-9}),
        ({"top_n_sigma": -1}, {"top_n_sigma": 0.0}),
        ({"typical_p": 2}, {"typical_p": 1.0}),
        ({"temperature": -0.5}, {"temperature": 0.0}),
        ({"adaptive_target": -1, "samplers": "edskypmxta"}, {"adaptive_target": None}),
        ({"adaptive_target": 0, "samplers": "edskypmxta"}, {"adaptive_target": 0.0}),
        ({"adaptive_target": 0.5}, {"adaptive_target": None}),
        ({"n_probs": 0}, {"logprobs": None}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs": 2}),
        (
            {"repeat_last_n": -1, "repeat_penalty": 1.1},
            {"penalty_window": 2**31 - 1, "repetition_penalty": 1.1},
        ),
        ({"logit_bias": {"15": -1.0, "Hello": False}}, {"logit_bias": {15: -1.0, "Hello": False}}),
        ({"samplers": ["top_k", "temperature"]}, {"top_p": 1.0, "min_p": 0.0}),
    ],
)
def test_values_with_a_meaning_of_their_own(given, read):
    params, _ = from_llama_cpp(given)
    order = params.order if "samplers" in given else "llama.cpp"
    assert params == llama_cpp_params(order=order, **read)


def test_a_window_of_0_turns_penalties_off():
    params, changes = from_llama_cpp({"repeat_last_n": 0, "repeat_penalty": 1.3, "frequency_penalty": 1.0})
    assert params == llama_cpp_params()
    assert notes(changes)["repeat_penalty"] == "repeat_last_n=0 turns it off"
    assert from_ollama({"repeat_last_n": 0})[0].repetition_penalty == 1
    params, changes = from_llama_cpp({"dry_penalty_last_n": 0, "dry_multiplier": 0.8})
    assert params == llama_cpp_params()
    assert {"dry_penalty_last_n", "dry_multiplier"} <= set(notes(changes))


def test_dynamic_temperature_is_a_middle_and_a_range():
    params, changes = from_llama_cpp({"temperature": 1.0, "dynatemp_range": 0.5})
    assert (params.temperature, params.dynatemp_min, params.dynatemp_max) == (1.0, 0.5, 1.5)
    assert notes(changes)["dynatemp_range"] == "temperature 1 plus or minus 0.5"
    assert from_llama_cpp({"temperature": 0.5, "dynatemp_range": 1.0})[0].dynatemp_min == 0
    assert from_llama_cpp({"dynatemp_range": 0})[0] == llama_cpp_params()
    params, changes = from_llama_cpp({"temperature": 0, "dynatemp_range": 1.0})
    assert params == llama_cpp_params(temperature=0.0)
    assert notes(changes)["dynatemp_range"] == "temperature=0 takes the largest logit"
    assert params.to_llama_cpp()[1] == ()


def test_mirostat_leaves_everything_else_out_as_there_and_says_what():
    given = {"mirostat": 2, "mirostat_tau": 3.0, "top_k": 5, "repeat_penalty": 1.2, "dynatemp_range": 0.5}
    params, changes = from_llama_cpp(given | {"samplers": ["top_k"], "adaptive_target": 0.5})
    expected = DecodingParams(
        order="llama.cpp", temperature=1.0, mirostat=2, mirostat_tau=3.0, max_tokens=None
    )
    assert params == expected.replace(temperature=params.temperature)
    told = notes(changes)
    assert told["adaptive_target"] == "it runs there only where samplers names adaptive_p"
    for name in ("top_k", "repeat_penalty", "dynatemp_range", "samplers"):
        assert "mirostat runs with bias and temperature only" in told[name]
    assert "top_p" not in told
    lost = DecodingParams(order="llama.cpp", mirostat=2, repetition_penalty=1.2).to_llama_cpp()[1]
    assert [change.our_name for change in lost] == ["repetition_penalty"]


def test_temperature_0_is_told_apart_where_their_chain_still_acts():
    _, changes = from_llama_cpp({"temperature": 0, "xtc_probability": 0.5})
    assert "xtc_probability can move the largest logit out there" in notes(changes)["temperature"]
    assert "temperature" not in notes(from_llama_cpp({"temperature": 0})[1])


def test_samplers_are_an_order_by_names_or_letters():
    stages = ("llama.cpp", "bias", "top_k", "typical", "temperature", "adaptive")
    assert read_samplers(["top_k", "typ_p", "temperature"]) == (stages, False)
    assert read_samplers(["top-k", "typical", "temp"]) == (stages, False)
    assert read_samplers("kyta") == (stages, True)
    assert read_samplers("edskypmxt") == ("llama.cpp", False)
    assert read_samplers("edskypmxta") == ("llama.cpp", True)
    assert read_samplers([]) == (("llama.cpp", "bias", "adaptive"), False)
    params, _ = from_llama_cpp({"samplers": "tk", "temperature": 0.5, "top_k": 3})
    assert stages_of(params.order)[:2] == ("bias", "temperature")
    assert params.to_llama_cpp()[0]["samplers"] == ["temperature", "top_k"]


@pytest.mark.parametrize(
    ("samplers", "words"),
    [
        (["top_k", "top_k"], "samplers names 'top_k' twice; here a stage runs once"),
        (["greedy"], "samplers holds 'greedy'; known are penalties"),
        ("kz", "samplers holds 'z'; known are e, d, s"),
        (["infill"], "infill has no counterpart"),
        (5, "samplers must be a list of names or a string of letters, got 5"),
    ],
)
def test_samplers_that_cannot_be_are_refused(samplers, words):
    with pytest.raises(BadRequest, match=words) as caught:
        from_llama_cpp({"samplers": samplers})
    assert caught.value.code == "bad_samplers"


def test_what_samplers_leaves_out_does_not_run_and_is_named():
    params, changes = from_llama_cpp({"samplers": "kt", "typical_p": 0.5, "repeat_penalty": 1.3})
    assert (params.typical_p, params.repetition_penalty, params.top_p) == (1.0, 1.0, 1.0)
    told = notes(changes)
    assert told["typical_p"] == told["repeat_penalty"] == "samplers does not name it"
    assert "top_p" not in told
    params, _ = from_llama_cpp({"samplers": "k", "temperature": 0.5})
    assert params.temperature == 1


def test_the_default_samplers_are_our_preset():
    order, _ = read_samplers("tkpmxysde")
    assert set(ORDERS["llama.cpp"]) - {"mirostat"} <= set(stages_of(order))


def test_orders_that_they_cannot_be_told():
    for order in (
        "vllm",
        ("top_k",),
        ("llama.cpp", "bias", "top_a", "adaptive"),
        ("llama.cpp", "bias", "top_k"),
    ):
        assert written_samplers(order, is_adaptive=False) is None
    assert written_samplers("llama.cpp", is_adaptive=True)[-1] == "adaptive_p"
    assert written_samplers("llama.cpp", is_adaptive=False)[-1] == "temperature"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n": 2}, "several answers are asked for"),
        ({"min_keep": 2}, "every truncation keeps one token"),
        ({"logit_bias": {"5": True}}, "logit_bias of 5"),
        ({"n_predict": 0}, "n_predict must be a whole number at least 1"),
        ({"n_predict": "many"}, "n_predict must be"),
        ({"mirostat": 3}, "mirostat must be"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(BadRequest, match=words):
        from_llama_cpp(given)


def test_bans_are_written_as_biases_of_false():
    theirs, lost = llama_cpp_params(banned_token_ids=[4], logit_bias={5: 1.0}).to_llama_cpp()
    assert theirs["logit_bias"] == [[5, 1.0], [4, False]]
    assert [change.our_name for change in lost] == ["banned_token_ids"]


def test_what_llama_cpp_cannot_say_is_named():
    params = llama_cpp_params(
        penalty_scope="output",
        logprobs=0,
        deadline_s=0.0001,
        dynatemp_min=0.1,
        dynatemp_max=0.8,
        temperature=1,
    )
    lost = {change.our_name for change in params.to_llama_cpp()[1]}
    assert {"penalty_scope", "logprobs", "deadline_s"} <= lost


def test_an_ollama_option_in_the_wrong_place_is_refused_and_not_ignored():
    """Clients put temperature beside the model, where it silently did nothing."""
    with pytest.raises(BadRequest, match='temperature=0: ollama reads it under "options" only') as caught:
        from_ollama({"model": "m", "temperature": 0})
    assert caught.value.code == "bad_temperature"
    params, changes = from_ollama(
        {"model": "m", "stream": False, "logprobs": True, "options": {"temperature": 0, "num_ctx": 4096}}
    )
    assert (params.temperature, params.logprobs) == (0, 0)
    assert {"model", "stream", "num_ctx"} <= set(notes(changes))


def test_the_effective_parameters_say_that_a_seed_is_unused_at_temperature_0():
    params, _ = from_ollama({"temperature": 0, "seed": 42})
    assert "seed" in params.unused()
    assert params.seed == 42
    assert DecodingParams(temperature=0, seed=42).unused() == ("seed",)


def test_ollama_knows_its_own_options_only():
    with pytest.raises(BadRequest, match="ollama has no parameter 'dry_multiplier'"):
        from_ollama({"dry_multiplier": 0.8})
    with pytest.raises(BadRequest, match="tail-free sampling is gone"):
        from_ollama({"tfs_z": 0.5})
    with pytest.raises(BadRequest, match="options must be names with values"):
        from_ollama({"options": 5})
    assert from_ollama({"tfs_z": 1.0, "penalize_newline": True})[0] == from_ollama({})[0]
    assert from_ollama({"options": None})[0] == from_ollama({})[0]
    theirs, lost = llama_cpp_params(xtc_probability=0.5, mirostat=0, penalty_scope="prompt").to_ollama()
    assert theirs["num_predict"] == -1
    assert {change.our_name for change in lost} == {"xtc_probability", "penalty_scope"}


def test_adaptive_p_is_named_there_even_when_the_order_is_lost():
    """It runs only where samplers names it."""
    theirs, lost = DecodingParams(adaptive_target=0.5).to_llama_cpp()
    assert [change.our_name for change in lost] == ["order"]
    assert DecodingParams.from_llama_cpp(theirs)[0].adaptive_target == 0.5
