"""What answers depend on, as plain values: the head of their file, and a name for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from unspool import __version__
from unspool.evals.answering import Wanted
from unspool.evals.question import Question
from unspool.models.cache import cache_dir
from unspool.params import DecodingParams
from unspool.search.named import described

if TYPE_CHECKING:
    from unspool.llm import LLM

_N_ROUNDED: Final = 64  # tokens of the first prompt whose log-probabilities say how numbers are rounded
_JUDGES: Final = 1  # goes up when a judge says something else of the same answer


def settings_of(
    llm: LLM,
    benchmark: Mapping[str, Any],
    runner: str,
    questions: Sequence[Question],
    wanted: Sequence[Wanted],
) -> dict[str, Any]:
    """Everything that changes an answer or what is said of it, and nothing else: how many answers and
    problems are wanted is not in it, because each is what it is whatever others there are.

    `prompt` is a digest of the first prompt, in which the chat template and the tokenizer show. `rounding` is
    one of the log-probabilities of its tokens, to the last bit: the instruction set, the runner's kernels and
    the libraries below them round otherwise, whatever they are called.
    """
    identity = llm.runner.identity
    return {
        **benchmark,
        "model": identity.name,
        "model_sha256": identity.sha256,
        **_amateur(llm),
        "runner": runner,
        "version": __version__,
        "judges": _JUDGES,
        "prompt": hashlib.sha256(json.dumps(questions[0].prompt_ids).encode()).hexdigest()[:16],
        "rounding": _rounding(llm, questions[0].prompt_ids),
        **{each.series: _decoded(each) for each in wanted},
    }


def _decoded(wanted: Wanted) -> dict[str, Any]:
    """How answers of a series are decoded."""
    params = _changed(wanted.params)
    return params if wanted.search is None else {"search": described(wanted.search), "params": params}


def _rounding(llm: LLM, prompt_ids: Sequence[int]) -> str:
    score = llm.score(list((*prompt_ids,) * _N_ROUNDED)[:_N_ROUNDED])  # of short prompts over again
    logprobs = np.array([each.token.logprob for each in score.logprobs], "<f8")
    return hashlib.sha256(logprobs.tobytes()).hexdigest()[:16]


def _amateur(llm: LLM) -> dict[str, str]:
    """The second model, where there is one."""
    if llm.amateur is None:
        return {}
    identity = llm.amateur.identity
    return {"amateur": identity.name, "amateur_sha256": identity.sha256}


def default_path(settings: Mapping[str, Any]) -> Path:
    """A file in the cache folder that is these settings' own, so that the same command continues it."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return cache_dir() / "evals" / f"{settings['benchmark']}-{settings['model']}-{digest[:12]}.jsonl"


def _changed(params: DecodingParams) -> dict[str, Any]:
    """The parameters that are not at their defaults."""
    plain = DecodingParams().to_dict()
    return {name: value for name, value in params.to_dict().items() if value != plain[name]}
