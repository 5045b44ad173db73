"""GenerationConfig's names."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.params import DecodingParams

from_transformers = DecodingParams.from_transformers


def ours(**more):
    return DecodingParams(order="transformers", **more)


def notes(changes):
    return {change.their_name: change.note for change in changes}


def test_without_do_sample_the_largest_logit_is_taken():
    for given in ({}, {"do_sample": False}, {"do_sample": None}):
        params, changes = from_transformers(given | {"max_new_tokens": 5, "top_p": 0.9})
        assert params == ours(temperature=0, max_tokens=5, top_p=0.9)
        assert notes(changes)["do_sample"].startswith("the largest logit is taken")
    params, changes = from_transformers({"temperature": 0.6, "max_new_tokens": 5})
    assert params.temperature == 0
    assert notes(changes)["temperature"] == "of no use without do_sample"


def test_sampling_takes_the_fifty_likeliest_unless_told():
    params, changes = from_transformers({"do_sample": True, "max_new_tokens": 5})
    assert params == ours(top_k=50, max_tokens=5)
    assert notes(changes) == {"top_k": "what transformers takes when it is not given"}
    assert from_transformers({"do_sample": True, "top_k": 0})[0].top_k == 0


def test_every_method_is_read():
    params, changes = from_transformers(
        {
            "do_sample": True,
            "temperature": 0.7,
            "top_k": 40,
            "top_p": 0.9,
            "min_p": 0.05,
            "typical_p": 0.8,
            "top_h": 0.4,
            "epsilon_cutoff": 0.01,
            "eta_cutoff": 0.02,
            "repetition_penalty": 1.2,
            "no_repeat_ngram_size": 3,
            "sequence_bias": [[[5], 1.5], [[6], -2.0]],
            "bad_words_ids": [[7]],
            "suppress_tokens": [8, 9],
            "eos_token_id": [2, 3],
            "max_new_tokens": 20,
            "min_new_tokens": 2,
            "max_time": 1.5,
            "stop_strings": ["END"],
            "renormalize_logits": True,
            "pad_token_id": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
        }
    )
    assert params == ours(
        temperature=0.7,
        top_k=40,
        top_p=0.9,
        min_p=0.05,
        typical_p=0.8,
        top_h=0.4,
        epsilon_cutoff=0.01,
        eta_cutoff=0.02,
        repetition_penalty=1.2,
        no_repeat_ngram_size=3,
        logit_bias={5: 1.5, 6: -2.0},
        banned_token_ids=[8, 9, 7],
        stop_token_ids=[2, 3],
        max_tokens=20,
        min_tokens=2,
        deadline_s=1.5,
        stop="END",
        include_stop=True,
    )
    assert set(notes(changes)) == {
        "eos_token_id", "stop_strings", "renormalize_logits", "pad_token_id", "num_beams",
        "num_return_sequences",
    }  # fmt: skip


def test_a_limit_on_prompt_and_answer_together_is_dropped_by_name():
    params, changes = from_transformers({"max_length": 4096})
    assert params.max_tokens == 512
    assert "counts the prompt too" in notes(changes)["max_length"]
    assert set(notes(changes)) == {"max_length", "max_new_tokens", "do_sample"}


def test_a_bias_may_be_a_mapping_of_tuples():
    assert from_transformers({"sequence_bias": {(5,): 1.5}})[0].logit_bias == ((5, 1.5),)
    theirs, lost = ours(logit_bias={5: 1.5}).to_transformers()
    assert theirs["sequence_bias"] == [[[5], 1.5]]
    assert lost == ()


def test_top_h_of_1_is_off_here():
    params, changes = from_transformers({"top_h": 1.0})
    assert params.top_h == 1
    assert "hundredth candidate" in notes(changes)["top_h"]


def test_guidance_goes_both_ways_and_its_prompt_is_an_argument_there():
    assert from_transformers({"guidance_scale": 1.5})[0].guidance_scale == 1.5
    theirs, lost = ours(guidance_scale=1.5, negative_prompt=[3, 4]).to_transformers()
    assert theirs["guidance_scale"] == 1.5
    assert [change.our_name for change in lost] == ["negative_prompt"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num_beams": 4}, "num_beams=4: beams are a search of their own .*; leave it at 1"),
        ({"num_return_sequences": 2}, "several answers are asked for"),
        ({"penalty_alpha": 0.6}, "contrastive search .* is not supported: needs hidden states"),
        ({"dola_layers": "high"}, "DoLa .* is not supported: needs hidden states"),
        ({"watermarking_config": {"bias": 2.0}}, "no watermark"),
        ({"forced_eos_token_id": 2}, "finish_reason tells"),
        ({"min_length": 5}, "use min_new_tokens"),
        ({"do_sample": 1}, "it must be True or False"),
        ({"do_sample": True, "temperature": 0.0}, "it must be above 0 with do_sample=True"),
        ({"sequence_bias": [[[5, 6], 1.5]]}, "only single tokens are biased"),
        ({"sequence_bias": 5}, "must pair lists of ids with numbers"),
        ({"sequence_bias": [5]}, "no list of ids with a number"),
        ({"bad_words_ids": [[5, 6]]}, "a word of several tokens is given as text"),
        ({"bad_words_ids": [5]}, "a word of several tokens is given as text"),
        ({"suppress_tokens": "5"}, "it must be a list of ids"),
        ({"suppress_tokens": [[5]]}, "suppress_tokens: banned_token_ids holds"),
        ({"eos_token_id": -1}, "eos_token_id: stop_token_ids holds -1"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(BadRequest, match=words):
        from_transformers(given)


def test_greedy_and_bans_are_written_in_their_words():
    theirs, lost = ours(temperature=0, banned_token_ids=[4]).to_transformers()
    assert theirs["do_sample"] is False
    assert "temperature" not in theirs
    assert theirs["suppress_tokens"] == [4]
    assert lost == ()


def test_what_they_cannot_say_is_named():
    for params in (ours(stop="x"), ours(include_stop=True)):
        assert [change.our_name for change in params.to_transformers()[1]] == ["include_stop"]
    assert [change.our_name for change in ours(max_tokens=None).to_transformers()[1]] == ["max_tokens"]
    assert [change.our_name for change in ours(seed=3).to_transformers()[1]] == ["seed"]


# What GenerationConfig(do_sample=True, top_p=0.9).to_dict() of transformers 5.24 holds beside None.
NAMES = [
    "max_length", "max_new_tokens", "min_length", "min_new_tokens", "early_stopping", "max_time",
    "stop_strings", "num_beams", "use_mtp", "use_cache", "cache_implementation", "cache_config",
    "max_cache_len", "temperature", "top_k", "min_p", "top_h", "typical_p", "epsilon_cutoff",
    "eta_cutoff", "repetition_penalty", "encoder_repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "bad_words_ids", "renormalize_logits", "forced_bos_token_id",
    "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "sequence_bias", "token_healing", "guidance_scale",
    "watermarking_config", "num_return_sequences", "output_attentions", "output_hidden_states",
    "output_scores", "output_logits", "return_dict_in_generate", "pad_token_id", "bos_token_id",
    "eos_token_id", "encoder_no_repeat_ngram_size", "decoder_start_token_id", "is_assistant",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit",
    "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight", "speculation_type",
    "compile_config", "disable_compile", "continuous_batching_config", "low_memory", "penalty_alpha",
    "dola_layers", "diversity_penalty", "num_beam_groups", "constraints", "force_words_ids",
    "prefill_chunk_size", "_from_model_config",
]  # fmt: skip


def test_every_name_of_a_generation_config_is_known():
    whole = dict.fromkeys(NAMES) | {"do_sample": True, "top_p": 0.9, "transformers_version": "5.24.0"}
    assert from_transformers(whole)[0] == ours(top_p=0.9, top_k=50)
    for name in NAMES:
        try:
            from_transformers({name: 1})
        except BadRequest as error:
            assert error.code != "unknown_parameter", name  # noqa: PT017 -- any other refusal is a known name
