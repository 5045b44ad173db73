"""vLLM's SamplingParams, and the names that its server adds to OpenAI's."""

from __future__ import annotations

from typing import Any, Final

from unspool.mappings.dialect import LOST, Dialect, Field, Reading, Told
from unspool.mappings.values import (
    A_CONSTRAINT,
    THE_ENGINE,
    THE_PROMPT,
    THE_REQUEST,
    THE_SERVER,
    bias_by_id_written,
    clamped_bias,
    is_number,
    must_be_off,
    one_answer,
    seed_of,
    unless_empty,
    unless_none,
)
from unspool.param_checks import Range

MAX_TOKENS: Final = 16  # what SamplingParams() has
_GREEDY_BELOW: Final = 1e-5
_LEAST_TEMPERATURE: Final = 0.01
_TWO: Final = Range(False, 0, 2, "vLLM's temperature ends at 2, where ours goes on to 100")


def _temperature(value: Any) -> Any:
    if not is_number(value) or value <= 0:
        return value
    if value < _GREEDY_BELOW:
        return Told(0.0, "vLLM decodes greedily below 1e-5")
    if value < _LEAST_TEMPERATURE:
        return Told(_LEAST_TEMPERATURE, "vLLM raises temperatures below 0.01 to it")
    return value


def _written_temperature(value: float) -> Any:
    return LOST if 0 < value < _LEAST_TEMPERATURE else value


def _before(reading: Reading) -> None:
    one_answer(reading, "n", "best_of")
    must_be_off(
        reading,
        {
            "use_beam_search": (False, "beams are a search of their own, not a parameter of sampling"),
            "length_penalty": (1.0, "it is for beams, which are a search of their own"),
            "logits_processors": ([], "functions on logits cannot be carried over"),
            "truncate_prompt_tokens": (None, "the prompt is cut by who writes it"),
            "thinking_token_budget": (None, "there is no budget of thinking so far"),
            "repetition_detection": (None, "use loop_min_count and loop_max_length"),
        },
    )
    for name in ("logprobs", "prompt_logprobs"):
        if reading.given.get(name) == -1:
            raise reading.refusal(name, -1, "the whole vocabulary is too much; ask for up to 1000")


VLLM: Final = Dialect(
    name="vLLM",
    order="vllm",
    fields=(
        Field("temperature", "temperature", allowed=_TWO, read=_temperature, write=_written_temperature),
        Field("top_p", "top_p"),
        Field("top_k", "top_k", read=lambda value: 0 if value == -1 else value),
        Field("min_p", "min_p"),
        Field("repetition_penalty", "repetition_penalty"),
        Field("frequency_penalty", "frequency_penalty"),
        Field("presence_penalty", "presence_penalty"),
        Field("logit_bias", "logit_bias", read=clamped_bias, write=bias_by_id_written(int)),
        Field("bad_words", "bad_words", write=unless_empty),
        Field("allowed_token_ids", "allowed_token_ids", write=lambda ids: unless_none(ids and list(ids))),
        Field("min_tokens", "min_tokens"),
        Field("max_tokens", "max_tokens", default=MAX_TOKENS, takes_none=True),
        Field("seed", "seed", read=seed_of, write=unless_none),
        Field("stop", "stop", write=unless_empty),
        Field("stop_token_ids", "stop_token_ids", write=unless_empty),
        Field("include_stop_str_in_output", "include_stop"),
        Field("ignore_eos", "ignore_eos"),
        Field("logprobs", "logprobs", write=unless_none),
        Field("prompt_logprobs", "prompt_logprobs", write=unless_none),
    ),
    elsewhere={
        **dict.fromkeys(("model", "user", "priority", "request_id", "extra_args", "vllm_xargs"), THE_REQUEST),
        **dict.fromkeys(("prompt", "messages", "echo", "add_special_tokens", "suffix"), THE_PROMPT),
        **dict.fromkeys(("add_generation_prompt", "continue_final_message", "chat_template"), THE_PROMPT),
        **dict.fromkeys(("stream", "stream_options", "output_kind", "detokenize"), THE_SERVER),
        **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens"), THE_SERVER),
        **dict.fromkeys(
            ("flat_logprobs", "output_text_buffer_length", "return_tokens_as_token_ids"), THE_SERVER
        ),
        **dict.fromkeys(("skip_reading_prefix_cache", "skip_clone"), THE_ENGINE),
        **dict.fromkeys(("structured_outputs", "guided_decoding", "response_format"), A_CONSTRAINT),
        **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_grammar"), A_CONSTRAINT),
        **dict.fromkeys(("tools", "tool_choice"), A_CONSTRAINT),
    },
    before=_before,
    before_names=("n", "best_of", "use_beam_search", "length_penalty", "logits_processors"),
)
