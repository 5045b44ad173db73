"""What is measured on which model. The same tokens go to every program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prompts import PROMPTS

SHORT_PROMPT = PROMPTS[1]
LONG_TEXT = "\n\n".join(PROMPTS)
N_CTX = 1024


@dataclass(frozen=True, slots=True)
class Workload:
    """One model's measurements."""

    model: str  # catalogue name
    n_new: int  # tokens decoded after the short prompt
    prompt_tokens: tuple[int, ...]  # lengths of the long prompts
    step_rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # n of v(n)


WORKLOADS = {
    workload.model: workload
    for workload in (
        Workload("smollm2-135m", n_new=128, prompt_tokens=(512,)),
        Workload("gemma3-270m", n_new=64, prompt_tokens=(512,)),
        Workload("qwen2.5-coder-1.5b", n_new=64, prompt_tokens=(256, 512)),
    )
}


def chosen(names: Sequence[str], quick: bool) -> list[Workload]:
    """The workloads of these models; `quick` shrinks them to show that everything runs."""
    workloads = [WORKLOADS[name] for name in names]
    if quick:
        return [replace(w, n_new=8, prompt_tokens=(64,), step_rows=(1, 2, 4)) for w in workloads]
    return workloads


def cycled(token_ids: Sequence[int], length: int) -> list[int]:
    """Exactly `length` tokens: the text again and again."""
    repeats = -(-length // len(token_ids))
    return (list(token_ids) * repeats)[:length]
