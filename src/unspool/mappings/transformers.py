"""transformers' GenerationConfig, as an object, its dictionary, or a model's generation_config.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from unspool.errors import BadRequest, brief
from unspool.mappings.dialect import ABSENT, LOST, Change, Dialect, Field, Reading, Told
from unspool.mappings.values import (
    THE_ENGINE,
    THE_PROMPT,
    THE_REQUEST,
    THE_SERVER,
    bias_by_id_written,
    must_be_off,
    off_above,
    one_answer,
    top_p_of,
    unless_empty,
    unless_none,
)
from unspool.param_checks import Bias
from unspool.params import DEFAULT_MAX_TOKENS, DecodingParams
from unspool.unsupported import UNSUPPORTED

TOP_K: Final = 50  # what `generate` takes when it samples and nobody says
_BEAMS: Final = "beams are a search of their own (Beam, --search beam), not a parameter of sampling"
_REFUSED: Final[Mapping[str, tuple[Any, str]]] = {
    "num_beams": (1, f"{_BEAMS}; leave it at 1"),
    "num_beam_groups": (1, _BEAMS),
    "diversity_penalty": (0.0, _BEAMS),
    "constraints": ([], _BEAMS),
    "force_words_ids": ([], _BEAMS),
    "penalty_alpha": (0.0, UNSUPPORTED["penalty_alpha"]),
    "dola_layers": ([], UNSUPPORTED["dola_layers"]),
    "watermarking_config": ({}, "there is no watermark"),
    "encoder_repetition_penalty": (1.0, "it is for models with an encoder"),
    "encoder_no_repeat_ngram_size": (0, "it is for models with an encoder"),
    "forced_bos_token_id": ([], "write the token at the end of the prompt"),
    "forced_eos_token_id": ([], "finish_reason tells that max_tokens was reached"),
    "exponential_decay_length_penalty": ([], "use max_tokens"),
    "begin_suppress_tokens": ([], "there are no bans for the first token alone; use suppress_tokens"),
    "token_healing": (False, "heal the prompt before it is sent"),
    "assistant_ensemble_weight": (1.0, "it changes the distribution"),
    "min_length": (0, "it counts the prompt too; use min_new_tokens"),
}


def _before(reading: Reading) -> None:
    one_answer(reading, "num_return_sequences")
    must_be_off(reading, _REFUSED)
    _read_strategy(reading)
    _read_limit(reading)
    _read_bans(reading)
    stop = reading.take("stop_strings")
    if stop is not None:
        reading.put("stop_strings", stop, "stop", stop)
        if stop:
            note = "the result keeps the stop string there"
            reading.put("stop_strings", stop, "include_stop", True, note)


def _read_strategy(reading: Reading) -> None:
    """Without do_sample temperature and truncation are of no use, and the largest logit is taken."""
    samples = reading.take("do_sample")
    if samples is not None and not isinstance(samples, bool):
        raise reading.refusal("do_sample", samples, "it must be True or False")
    if samples:
        if reading.given.get("top_k") is None:
            reading.take("top_k")
            reading.fill_in("top_k", "top_k", TOP_K)
        if reading.given.get("temperature") == 0:
            raise reading.refusal("temperature", 0, "it must be above 0 with do_sample=True; make that False")
        return
    if (temperature := reading.take("temperature")) is not None and temperature != 0:
        reading.drop("temperature", temperature, "of no use without do_sample")
    note = "the largest logit is taken" + ("" if samples is False else "; do_sample is False when not given")
    reading.put("do_sample", samples, "temperature", 0.0, note)


def _read_limit(reading: Reading) -> None:
    of_all = reading.take("max_length")
    if of_all is not None:
        reading.drop("max_length", of_all, "it counts the prompt too; give max_new_tokens")
    if reading.given.get("max_new_tokens") is None:
        note = "ours, for want of max_new_tokens; without max_length there it is 20 with the prompt"
        reading.fill_in("max_new_tokens", "max_tokens", DEFAULT_MAX_TOKENS, note)


def _read_bans(reading: Reading) -> None:
    """suppress_tokens, and bad words of one token: the words are ids there and texts here."""
    banned: list[Any] = []
    for name in ("suppress_tokens", "bad_words_ids"):
        value = reading.take(name)
        if value is None:
            continue
        if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
            raise reading.refusal(name, value, "it must be a list of ids")
        for item in value:
            ids = [item] if name == "suppress_tokens" else item
            if not isinstance(ids, Sequence) or isinstance(ids, (str, bytes)) or len(ids) != 1:
                raise reading.refusal(name, item, "a word of several tokens is given as text; use bad_words")
            banned.append(ids[0])
        reading.ours["banned_token_ids"] = banned
        reading.set_by["banned_token_ids"] = name


def _sequence_bias(value: Any) -> Any:
    """{(5,): 1.5} or [[[5], 1.5]]: sequences of one token; longer ones have no counterpart."""
    pairs = value.items() if isinstance(value, Mapping) else value
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes)):
        raise BadRequest(
            f"sequence_bias must pair lists of ids with numbers, got {brief(value)}", code="bad_sequence_bias"
        )
    biases = []
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], Sequence):
            raise BadRequest(
                f"sequence_bias holds {brief(pair)}, which is no list of ids with a number",
                code="bad_sequence_bias",
            )
        ids, bias = pair
        if len(ids) != 1:
            raise BadRequest(
                f"sequence_bias of {brief(ids)}: only single tokens are biased; to ban a text use bad_words",
                code="bad_sequence_bias",
            )
        biases.append((ids[0], bias))
    return biases


def _sequence_bias_written(biases: tuple[Bias, ...]) -> Any:
    by_id = bias_by_id_written(int)(biases)
    if by_id is LOST or by_id is ABSENT:
        return by_id
    return [[[token_id], bias] for token_id, bias in by_id.items()]


def _top_h(value: Any) -> Any:
    return (
        Told(1.0, "1 still cuts after the hundredth candidate there; here it is off") if value == 1 else value
    )


def _finish(params: DecodingParams, theirs: dict[str, Any], lost: list[Change]) -> None:
    theirs["do_sample"] = not params.is_greedy
    if params.is_greedy:
        theirs.pop("temperature")
    if params.stop and not params.include_stop:
        lost.append(Change(None, None, "include_stop", False, "transformers keeps the stop string"))
    elif params.include_stop and not params.stop:
        lost.append(Change(None, None, "include_stop", True, "transformers has it with stop_strings only"))
    if params.stop:
        theirs["stop_strings"] = list(params.stop)
    if params.banned_token_ids:
        theirs["suppress_tokens"] = list(params.banned_token_ids)


TRANSFORMERS: Final = Dialect(
    name="transformers",
    order="transformers",
    fields=(
        Field("temperature", "temperature"),
        Field("top_k", "top_k"),
        Field("top_p", "top_p", read=lambda value: top_p_of(off_above(1, 1.0)(value))),
        Field("min_p", "min_p"),
        Field("typical_p", "typical_p"),
        Field("top_h", "top_h", read=_top_h, write=lambda share: ABSENT if share == 1 else share),
        Field("epsilon_cutoff", "epsilon_cutoff"),
        Field("eta_cutoff", "eta_cutoff"),
        Field("repetition_penalty", "repetition_penalty"),
        Field("no_repeat_ngram_size", "no_repeat_ngram_size"),
        Field("guidance_scale", "guidance_scale", write=lambda scale: ABSENT if scale == 1 else scale),
        Field("sequence_bias", "logit_bias", read=_sequence_bias, write=_sequence_bias_written),
        Field("max_new_tokens", "max_tokens", write=lambda limit: LOST if limit is None else limit),
        Field("min_new_tokens", "min_tokens"),
        Field("max_time", "deadline_s", write=unless_none),
        Field(
            "eos_token_id",
            "stop_token_ids",
            write=unless_empty,
            note="beside the model's own ends, where it stands instead of them there",
        ),
    ),
    elsewhere={
        **dict.fromkeys(("pad_token_id", "bos_token_id", "decoder_start_token_id"), THE_PROMPT),
        **dict.fromkeys(("use_cache", "cache_implementation", "cache_config", "max_cache_len"), THE_ENGINE),
        **dict.fromkeys(
            ("compile_config", "disable_compile", "prefill_chunk_size", "low_memory"), THE_ENGINE
        ),
        **dict.fromkeys(("use_mtp", "is_assistant", "num_assistant_tokens", "speculation_type"), THE_ENGINE),
        **dict.fromkeys(
            ("num_assistant_tokens_schedule", "assistant_confidence_threshold", "assistant_early_exit"),
            THE_ENGINE,
        ),
        **dict.fromkeys(("assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size"), THE_ENGINE),
        **dict.fromkeys(
            ("prompt_lookup_num_tokens", "prefill_chunk_size", "continuous_batching_config"), THE_ENGINE
        ),
        **dict.fromkeys(("output_attentions", "output_hidden_states", "output_scores"), THE_SERVER),
        **dict.fromkeys(("output_logits", "return_dict_in_generate"), THE_SERVER),
        **dict.fromkeys(("transformers_version", "_from_model_config", "_commit_hash"), THE_REQUEST),
        "renormalize_logits": "it changes no choice, and log-probabilities are always normalised here",
        "remove_invalid_values": "a logit that is no number is an error here",
        "negative_prompt_ids": "it is given to generate; ours is negative_prompt",
        **dict.fromkeys(("length_penalty", "early_stopping"), "it is for beams"),
    },
    before=_before,
    before_names=(
        "do_sample",
        "num_return_sequences",
        "max_length",
        "suppress_tokens",
        "bad_words_ids",
        "stop_strings",
        *_REFUSED,
    ),
    finish=_finish,
    finish_names={"stop": "stop_strings", "include_stop": "", "banned_token_ids": "suppress_tokens"},
)
