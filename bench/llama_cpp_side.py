"""llama.cpp's half of a comparison: do one job, print one line of JSON.

usage: python bench/llama_cpp_side.py JOB.json

Runs in an environment that has llama-cpp-python, and imports nothing of unspool. The library is driven
through its C interface, so that no Python sampling code is on its clock: a step is `llama_decode` and an
argmax over the logits it left in memory, the same as in our half.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from scoring import target_logprobs

FLASH = {
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
}
BATCH_TOKENS = 512


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(_level: int, _text: bytes, _data: ctypes.c_void_p) -> None:
    """Drop the library's log: standard error is for what goes wrong in a job."""


class Model:
    """A loaded file."""

    def __init__(self, path: str) -> None:
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.handle = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params()
        )
        if not self.handle:
            raise SystemExit(f"error: llama.cpp could not load {path}")
        self.vocab = llama_cpp.llama_model_get_vocab(self.handle)
        self.vocab_size = int(llama_cpp.llama_vocab_n_tokens(self.vocab))


class Context:
    """One sequence over a model, f16 KV as by default."""

    def __init__(self, model: Model, n_ctx: int, n_threads: int, flash: str, n_sequences: int = 1) -> None:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_seq_max = n_sequences
        params.kv_unified = n_sequences > 1
        params.n_batch = params.n_ubatch = BATCH_TOKENS
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = FLASH[flash]
        self.model = model
        self.handle = llama_cpp.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise SystemExit(f"error: llama.cpp could not make a context of {n_ctx} tokens")

    def step(self, tokens: Sequence[tuple[int, int, int, bool]]) -> list[npt.NDArray[np.float32]]:
        """Run rows (token id, position, sequence, wants logits); the logits (V,) that are wanted."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for slot, (token_id, position, sequence, wants) in enumerate(tokens):
            batch.token[slot], batch.pos[slot] = token_id, position
            batch.n_seq_id[slot], batch.seq_id[slot][0] = 1, sequence
            batch.logits[slot] = wants
        self._decode(batch)
        wanted = [self._logits(slot) for slot, row in enumerate(tokens) if row[3]]
        llama_cpp.llama_batch_free(batch)
        return wanted

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.handle), True)

    def extend(self, token_ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Append tokens; logits (V,) after the last one, a view that the next call overwrites."""
        for start in range(0, len(token_ids), BATCH_TOKENS):
            chunk = token_ids[start : start + BATCH_TOKENS]
            tokens = (llama_cpp.llama_token * len(chunk))(*chunk)
            self._decode(llama_cpp.llama_batch_get_one(tokens, len(chunk)))
        return self._logits(-1)

    def score(self, token_ids: Sequence[int], first: int) -> npt.NDArray[np.float32]:
        """Logits (len(token_ids) - first, V) after positions first, first + 1, ..., from a clear context."""
        self.clear()
        n = len(token_ids)
        out = np.empty((n - first, self.model.vocab_size), dtype=np.float32)
        batch = llama_cpp.llama_batch_init(BATCH_TOKENS, 0, 1)
        for start in range(0, n, BATCH_TOKENS):
            stop = min(start + BATCH_TOKENS, n)
            batch.n_tokens = stop - start
            for slot, position in enumerate(range(start, stop)):
                batch.token[slot] = token_ids[position]
                batch.pos[slot] = position
                batch.n_seq_id[slot] = 1
                batch.seq_id[slot][0] = 0
                batch.logits[slot] = position >= first
            self._decode(batch)
            for position in range(max(start, first), stop):
                out[position - first] = self._logits(position - start)
        llama_cpp.llama_batch_free(batch)
        return out

    def _decode(self, batch: Any) -> None:
        status = llama_cpp.llama_decode(self.handle, batch)
        if status != 0:
            raise SystemExit(f"error: llama_decode returned {status}")

    def _logits(self, index: int) -> npt.NDArray[np.float32]:
        pointer = llama_cpp.llama_get_logits_ith(self.handle, index)
        return np.ctypeslib.as_array(pointer, shape=(self.model.vocab_size,))

    def close(self) -> None:
        llama_cpp.llama_free(self.handle)


def time_decode(context: Context, prompt: Sequence[int], n_new: int) -> float:
    """Tokens a second of greedy decoding after a prompt; the prompt is not on the clock."""
    context.clear()
    logits = context.extend(prompt)
    start = time.perf_counter()
    for _ in range(n_new):
        logits = context.extend([int(np.argmax(logits))])
    return n_new / (time.perf_counter() - start)


def time_prompt(context: Context, prompt: Sequence[int]) -> float:
    """Tokens a second of reading a prompt into an empty context, up to the logits of its last token."""
    context.clear()
    start = time.perf_counter()
    context.extend(prompt)
    return len(prompt) / (time.perf_counter() - start)


def measure_speed(job: dict[str, Any]) -> dict[str, Any]:
    """Every figure of the job, once with flash attention and once without."""
    start = time.perf_counter()
    model = Model(job["model"])
    load_s = time.perf_counter() - start
    figures: dict[str, Any] = {"load_s": load_s, "variants": {}}
    for flash in FLASH:
        context = Context(model, job["n_ctx"], job["n_threads"], flash)
        context.extend(job["prompt"])  # touches every page of the weights
        variant = {"decode_tok_s": time_decode(context, job["prompt"], job["n_new"])}
        for name, token_ids in job["long_prompts"].items():
            variant[f"prompt_{name}_tok_s"] = time_prompt(context, token_ids)
        context.close()
        for name, token_ids in job["contexts"].items():
            context = Context(model, len(token_ids) + job["n_new"], job["n_threads"], flash)
            variant[f"decode_at_{name}_tok_s"] = time_decode(context, token_ids, job["n_new"])
            context.close()
        figures["variants"][f"flash {flash}"] = variant
    figures["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return figures


def measure_batched(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy decoding of all prompts at once; the better of flash attention on and off."""
    model = Model(job["model"])
    prompts, n_new = job["prompts"], job["n_new"]
    best: dict[str, Any] = {}
    for flash in FLASH:
        n_ctx = sum(len(prompt) + n_new for prompt in prompts)
        context = Context(model, n_ctx, job["n_threads"], flash, len(prompts))
        context.step([(token_id, i, 0, i == 7) for i, token_id in enumerate(prompts[0][:8])])
        context.clear()
        start = time.perf_counter()
        current = []
        for sequence, prompt in enumerate(prompts):
            last = len(prompt) - 1
            (logits,) = context.step([(t, i, sequence, i == last) for i, t in enumerate(prompt)])
            current.append(int(np.argmax(logits)))
        first = time.perf_counter()
        for n in range(n_new - 1):
            rows = [(t, len(prompts[i]) + n, i, True) for i, t in enumerate(current)]
            current = [int(np.argmax(logits)) for logits in context.step(rows)]
        end = time.perf_counter()
        n_tokens = len(prompts)
        figures = {
            "decode_tok_s": (n_new - 1) * n_tokens / (end - first),
            "whole_tok_s": n_new * n_tokens / (end - start),
        }
        if not best or figures["decode_tok_s"] > best["decode_tok_s"]:
            best = {**figures, "variant": f"flash {flash}"}
        context.close()
    return best


def open_for(job: dict[str, Any]) -> Context:
    """A context that holds the job's longest sequence."""
    longest = max(len(sequence) for sequence in job["sequences"])
    return Context(Model(job["model"]), max(longest, BATCH_TOKENS), job["n_threads"], job["flash"])


def write_logprobs(job: dict[str, Any]) -> dict[str, Any]:
    """Write the logprob of every token but the first of sequence i to <out>/<i>.npy."""
    context = open_for(job)
    for index, token_ids in enumerate(job["sequences"]):
        logits = context.score(token_ids[:-1], 0)
        np.save(Path(job["out"]) / f"{index}.npy", target_logprobs(logits, token_ids[1:]))
    return {"n_sequences": len(job["sequences"])}


def write_logits(job: dict[str, Any]) -> dict[str, Any]:
    """Write the logits of sequence i from position first[i] on to <out>/<i>.npy."""
    context = open_for(job)
    for index, (token_ids, first) in enumerate(zip(job["sequences"], job["first"], strict=True)):
        np.save(Path(job["out"]) / f"{index}.npy", context.score(token_ids, first))
    return {"n_sequences": len(job["sequences"])}


KINDS = {
    "speed": measure_speed,
    "batched": measure_batched,
    "score": write_logits,
    "logprobs": write_logprobs,
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    answer = KINDS[job["kind"]](job)
    answer["program"] = f"llama-cpp-python {llama_cpp.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
