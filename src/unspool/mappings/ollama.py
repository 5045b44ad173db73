"""Ollama's options. A whole request is read too: then only what stands under "options" is about decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from unspool.errors import BadRequest, brief
from unspool.mappings import llama_cpp
from unspool.mappings.dialect import Dialect, Reading
from unspool.mappings.llama_cpp_fields import fields_with
from unspool.mappings.values import (
    A_CONSTRAINT,
    THE_ENGINE,
    THE_PROMPT,
    THE_REQUEST,
    must_be_off,
    read_logprobs,
)

_OF_REQUESTS: Final = ("model", "prompt", "messages", "options")
_NAMES: Final[Mapping[str, str]] = {  # of the options: llama.cpp's name to ollama's
    "n_predict": "num_predict",
    **{
        name: name
        for name in (
            "temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "repeat_last_n",
            "frequency_penalty", "presence_penalty", "mirostat", "mirostat_tau", "mirostat_eta", "seed",
            "stop",
        )
    },
}  # fmt: skip
_FIELDS: Final = tuple(
    replace(each, theirs=_NAMES[each.theirs], aliases=())
    for each in fields_with(top_p=0.9, min_p=0.0, repeat_penalty=1.1)
    if each.theirs in _NAMES
)


def _before(reading: Reading) -> None:
    _unwrap(reading)
    must_be_off(
        reading,
        {
            "tfs_z": (1.0, "tail-free sampling is gone from llama.cpp; set tfs_z with another order"),
            "penalize_newline": (True, "list the newline's id in penalty_exclude_ids"),
        },
    )
    llama_cpp.read_windows(reading)


def _unwrap(reading: Reading) -> None:
    """Options beside "options" instead of under it are silently ignored there; here they are refused."""
    if not any(name in reading.given for name in _OF_REQUESTS):
        return
    options: Any = reading.take("options") or {}
    if not isinstance(options, Mapping):
        raise BadRequest(f"options must be names with values, got {brief(options)}", code="bad_options")
    for name, value in reading.given.items():
        if name in _NAMES.values() and value is not None:
            raise reading.refusal(name, value, f'ollama reads it under "options" only; move {name} there')
    read_logprobs(reading)  # these are the request's own
    reading.given |= options


OLLAMA: Final = Dialect(
    name="ollama",
    order="llama.cpp",
    fields=_FIELDS,
    elsewhere={
        **dict.fromkeys(("model", "stream"), THE_REQUEST),
        **dict.fromkeys(("prompt", "messages", "tools"), THE_PROMPT),
        **dict.fromkeys(("system", "template", "context", "raw", "images", "suffix", "num_keep"), THE_PROMPT),
        **dict.fromkeys(("keep_alive", "think"), THE_REQUEST),
        "format": A_CONSTRAINT,
        **dict.fromkeys(
            ("num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread"), THE_ENGINE
        ),
        **dict.fromkeys(("numa", "low_vram", "f16_kv", "vocab_only", "use_mlock", "logits_all"), THE_ENGINE),
    },
    before=_before,
    before_names=("options", "logprobs", "top_logprobs", "tfs_z", "penalize_newline"),
    after=llama_cpp.after,
    finish=lambda params, theirs, lost: llama_cpp.finish_penalties(params, lost),
    finish_names={"penalty_scope": ""},
)
