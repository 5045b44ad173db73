"""Anthropic's messages."""

from __future__ import annotations

from typing import Any, Final

from unspool.mappings.dialect import LOST, Dialect, Field, Reading
from unspool.mappings.values import (
    A_CONSTRAINT,
    THE_PROMPT,
    THE_REQUEST,
    THE_SERVER,
    top_p_of,
    unless_empty,
)
from unspool.param_checks import Range
from unspool.params import DEFAULT_MAX_TOKENS

# Both count from the model's own distribution at 1: .5 is .5. Only the range ends earlier, so nothing is
# scaled, and what lies above 1 there is refused as they refuse it.
_ONE: Final = Range(False, 0, 1, "Anthropic's temperature ends at 1, where ours goes on to 100")


def _before(reading: Reading) -> None:
    if reading.given.get("max_tokens") is None:
        reading.fill_in("max_tokens", "max_tokens", DEFAULT_MAX_TOKENS, "Anthropic wants one; this is ours")


def _limit(value: int | None) -> Any:
    return LOST if value is None else value  # they want a number


ANTHROPIC: Final = Dialect(
    name="Anthropic",
    fields=(
        Field("temperature", "temperature", allowed=_ONE, note="not scaled: 1 is the model's own in both"),
        Field("top_p", "top_p", read=top_p_of),
        Field("top_k", "top_k"),
        Field("stop_sequences", "stop", write=unless_empty),
        Field("max_tokens", "max_tokens", write=_limit),
    ),
    before=_before,
    elsewhere={
        **dict.fromkeys(("messages", "system"), THE_PROMPT),
        **dict.fromkeys(("model", "metadata", "service_tier", "thinking", "container"), THE_REQUEST),
        **dict.fromkeys(("mcp_servers", "betas", "context_management", "cache_control"), THE_REQUEST),
        "stream": THE_SERVER,
        **dict.fromkeys(("tools", "tool_choice", "output_format", "output_config"), A_CONSTRAINT),
    },
)
