"""What is measured on which model. The same tokens go to every program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prompts import PROMPTS

SHORT_PROMPT = PROMPTS[1]
LONG_TEXT = "\n\n".join(PROMPTS)
N_CTX = 1024
N_BATCHED_PROMPT, N_BATCHED_NEW = 128, 64  # tokens of each of many requests


@dataclass(frozen=True, slots=True)
class Workload:
    """One model's measurements."""

    model: str  # catalogue name
    n_new: int  # tokens decoded after the short prompt
    prompt_tokens: tuple[int, ...]  # lengths of the long prompts
    streams: tuple[int, ...]  # numbers of requests that decode at once
    in_float: bool = False  # measured on the programs that need bfloat16 weights, too
    contexts: tuple[int, ...] = ()  # tokens in the cache when decoding of one stream is timed
    behind: tuple[int, int] | None = None  # streams that share a prompt of so many tokens
    step_rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)  # n of v(n)
    own_contexts: tuple[int, ...] = (0, 512, 2048, 4096, 8191)  # tokens behind a step of our own


WORKLOADS = {
    workload.model: workload
    for workload in (
        Workload(
            "smollm2-135m",
            n_new=128,
            prompt_tokens=(512,),
            streams=(8, 32),
            in_float=True,
            contexts=(4096,),
            behind=(32, 2048),
        ),
        Workload("gemma3-270m", n_new=64, prompt_tokens=(256, 512), streams=(8,)),
        Workload("qwen2.5-coder-1.5b", n_new=64, prompt_tokens=(256, 512), streams=(8, 16)),
    )
}


def chosen(names: Sequence[str], quick: bool) -> list[Workload]:
    """The workloads of these models; `quick` shrinks them to show that everything runs."""
    workloads = [WORKLOADS[name] for name in names]
    if quick:
        return [
            replace(
                w,
                n_new=8,
                own_contexts=(0, 64),
                prompt_tokens=(64,),
                streams=(2,),
                contexts=(128,),
                behind=(2, 128),
                step_rows=(1, 2, 4),
            )
            for w in workloads
        ]
    return workloads


def distinct_prompts(text: Sequence[int], n: int) -> list[list[int]]:
    """n prompts of N_BATCHED_PROMPT tokens that differ from their first token on."""
    tokens = cycled(text, 8 * n + N_BATCHED_PROMPT)
    return [tokens[8 * i + 1 : 8 * i + 1 + N_BATCHED_PROMPT] for i in range(n)]


def cycled(token_ids: Sequence[int], length: int) -> list[int]:
    """Exactly `length` tokens: the text again and again."""
    repeats = -(-length // len(token_ids))
    return (list(token_ids) * repeats)[:length]
