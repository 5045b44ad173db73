"""OpenAI's chat and text completions, and the servers that speak like them."""

from __future__ import annotations

from typing import Any, Final

from unspool.mappings.dialect import LOST, Change, Dialect, Field, Reading
from unspool.mappings.values import (
    A_CONSTRAINT,
    N_TOP_LOGPROBS,
    THE_PROMPT,
    THE_REQUEST,
    THE_SERVER,
    bias_by_id,
    bias_by_id_written,
    one_answer,
    read_logprobs,
    top_p_of,
    unless_empty,
    unless_none,
    unsigned_seed,
)
from unspool.param_checks import Range
from unspool.params import DecodingParams

LEGACY_MAX_TOKENS: Final = 16  # of text completions
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_TWO: Final = Range(False, 0, 2, "OpenAI's temperature ends at 2, where ours goes on to 100")


def _before(reading: Reading) -> None:
    one_answer(reading, "n", "best_of")
    read_logprobs(reading)
    if all(reading.given.get(name) is None for name in _LIMITS):
        of_text = "prompt" in reading.given and "messages" not in reading.given
        limit = LEGACY_MAX_TOKENS if of_text else None
        note = "what text completions take" if of_text else "a chat answer may fill the context"
        reading.fill_in("max_tokens", "max_tokens", limit, f"{note} when it is not given")


def _finish(params: DecodingParams, theirs: dict[str, Any], lost: list[Change]) -> None:
    if params.logprobs is not None and params.logprobs > N_TOP_LOGPROBS:
        note = f"OpenAI gives {N_TOP_LOGPROBS} at most"
        lost.append(Change(None, None, "logprobs", params.logprobs, note))
    elif params.logprobs is not None:
        theirs |= {"logprobs": True, "top_logprobs": params.logprobs}


def _at_most_four(stop: tuple[str, ...]) -> Any:
    return LOST if len(stop) > 4 else unless_empty(stop)


OPENAI: Final = Dialect(
    name="OpenAI",
    fields=(
        Field("temperature", "temperature", allowed=_TWO),
        Field("top_p", "top_p", read=top_p_of),
        Field("frequency_penalty", "frequency_penalty"),
        Field("presence_penalty", "presence_penalty"),
        Field("logit_bias", "logit_bias", read=bias_by_id, write=bias_by_id_written(str)),
        Field("seed", "seed", read=unsigned_seed, write=unless_none),
        Field("stop", "stop", write=_at_most_four),
        Field(
            "max_tokens",
            "max_tokens",
            write=unless_none,
            aliases=_LIMITS[1:],
        ),
    ),
    elsewhere={
        **dict.fromkeys(("prompt", "messages", "input", "instructions", "suffix", "echo"), THE_PROMPT),
        **dict.fromkeys(("model", "user", "metadata", "store", "safety_identifier"), THE_REQUEST),
        **dict.fromkeys(("service_tier", "prompt_cache_key", "modalities", "audio"), THE_REQUEST),
        **dict.fromkeys(("reasoning_effort", "reasoning", "verbosity", "prediction"), THE_REQUEST),
        **dict.fromkeys(("web_search_options", "previous_response_id", "include", "background"), THE_REQUEST),
        **dict.fromkeys(("stream", "stream_options"), THE_SERVER),
        **dict.fromkeys(("tools", "tool_choice", "parallel_tool_calls"), A_CONSTRAINT),
        **dict.fromkeys(("functions", "function_call", "response_format", "text"), A_CONSTRAINT),
    },
    before=_before,
    before_names=("n", "best_of", "logprobs", "top_logprobs"),
    finish=_finish,
    finish_names={"logprobs": "top_logprobs"},
)
