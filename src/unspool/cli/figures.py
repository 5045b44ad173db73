"""What an answer cost, in one line for people and in one object for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from unspool.cli.text import counted

if TYPE_CHECKING:
    from unspool.types import Event, Usage


def figures_line(event: Event, profile: str = "", *, is_one_of_many: bool = False) -> str:
    """Tokens, times, speeds, reason, seed, score and profile of an answer, from its last event.

    One that was broken off before its first event is all answers at once, without tokens and times.
    """
    parts = [] if event.usage is None else _of_usage(event.usage)
    parts.append(f"end: {_reason(event)}")
    if event.seed is not None:
        parts.append(f"seed: {event.seed}")
    if is_one_of_many and event.usage is not None:
        parts.append(f"branch: {event.branch}")
    if event.score is not None:
        parts.append(f"score: {event.score:.3f}")
    if profile:
        parts.append(f"profile: {profile}")
    return " | ".join(parts)


def _of_usage(usage: Usage) -> list[str]:
    cached = f", {usage.cached_tokens} cached" if usage.cached_tokens else ""
    parts = [
        f"prompt: {counted(usage.prompt_tokens, 'token')}{cached}{_speed(usage.prefill_tokens_per_s)}",
        f"answer: {counted(usage.completion_tokens, 'token')}{_speed(usage.decode_tokens_per_s)}",
    ]
    if usage.completion_tokens:
        parts.append(f"first token: {usage.ttft_ms:.0f} ms")
    return parts


def usage_dict(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "queue_ms": round(usage.queue_ms, 3),
        "ttft_ms": round(usage.ttft_ms, 3),
        "prefill_tokens_per_s": round(usage.prefill_tokens_per_s, 2),
        "decode_tokens_per_s": round(usage.decode_tokens_per_s, 2),
        "inter_token_ms": {
            "mean": round(usage.inter_token.mean_ms, 3),
            "p50": round(usage.inter_token.p50_ms, 3),
            "p99": round(usage.inter_token.p99_ms, 3),
            "max": round(usage.inter_token.max_ms, 3),
        },
        "n_preempted": usage.n_preempted,
        "reread_tokens": usage.reread_tokens,
    }


def _reason(event: Event) -> str:
    if isinstance(event.stop, str):
        return f"stopped at {event.stop!r}"
    if event.finish_reason == "stop":
        return "end of text" if event.stop is None else f"end of text (token {event.stop})"
    assert event.finish_reason is not None, "only the last event has a reason"
    return _REASONS.get(event.finish_reason, event.finish_reason)


_REASONS: Final[Mapping[str, str]] = {
    "length": "token limit",
    "loop": "the text went round in circles",
    "cancelled": "interrupted",
}


def _speed(tokens_per_s: float) -> str:
    return f" ({tokens_per_s:.1f}/s)" if tokens_per_s > 0 else ""
