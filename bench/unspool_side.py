"""Our half of a comparison: do one job, print one line of JSON.

usage: python bench/unspool_side.py JOB.json

The runner is driven directly (sequences.py), so that a step is `forward` and an argmax, as in the other
half; the same work through LLM is measured beside it.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import unspool
from scoring import target_logprobs
from sequences import Sequences
from unspool import breakdown
from unspool.kv.layout import pages_for
from unspool.models.architectures import build_graph
from unspool.models.catalogue import resolve
from unspool.models.config import read_config
from unspool.models.tokenizer import Tokenizer, load_tokenizer
from unspool.models.weights import open_weights
from unspool.runners.base import Runner
from unspool.runners.native import NativeRunner
from unspool.runners.reference import ReferenceRunner
from unspool.types import Plan
from unspool_engine_side import batched

PAGE_SIZE = 32
STEP_PAST = 64  # tokens already in the cache of each sequence when a step is timed
STEP_ROUNDS = 25
SHARED_ROUNDS = 15
LIMIT_ROUNDS = 10
PROMPT_CHUNK = 512  # rows of one pass over a long context
MAX_LOGITS_BYTES = 1 << 30  # of one scoring pass


def open_native(path: Path, n_tokens: int, n_threads: int) -> NativeRunner:
    """The native runner with pages for n_tokens."""
    source = open_weights(path)
    graph = build_graph(read_config(source), source)
    n_pages = pages_for(n_tokens, PAGE_SIZE)
    return NativeRunner(graph, source, n_pages=n_pages, page_size=PAGE_SIZE, n_threads=n_threads)


def open_reference(path: Path, n_tokens: int) -> ReferenceRunner:
    """The reference runner in float32; it sees all rows at once, which is fast and not row-exact."""
    source = open_weights(path)
    graph = build_graph(read_config(source), source)
    n_pages = pages_for(n_tokens, PAGE_SIZE)
    return ReferenceRunner(
        graph, source, n_pages=n_pages, page_size=PAGE_SIZE, row_exact=False, keep_weights=False
    )


def open_tokenizer(path: Path) -> Tokenizer:
    return load_tokenizer(open_weights(path))


def peak_bytes() -> int:
    """The most memory this process has held, mapped pages of the weights file included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def storage_for(n_sequences: int, n_tokens: int) -> int:
    """Tokens of storage for sequences that each start on a page of their own."""
    return n_sequences * pages_for(n_tokens, PAGE_SIZE) * PAGE_SIZE


def greedy(sequences: Sequences, token_id: int, n_new: int) -> list[int]:
    """Extend one sequence by n_new tokens, beginning with token_id; the tokens it then chose."""
    chosen = []
    for _ in range(n_new):
        token_id = int(np.argmax(sequences.extend([[token_id]])[0]))
        chosen.append(token_id)
    return chosen


def tokenize(job: dict[str, Any]) -> dict[str, Any]:
    """Token ids of texts, with BOS when the tokenizer adds one unless "bos" is false."""
    path = resolve(job["model"])
    tokenizer = open_tokenizer(path)
    with_bos = job.get("bos", True)
    ids = [[int(i) for i in tokenizer.encode(text, add_bos=with_bos)] for text in job["texts"]]
    bos = [int(i) for i in tokenizer.encode("", add_bos=True)]
    return {"path": str(path), "token_ids": ids, "bos": bos}


def measure_speed(job: dict[str, Any]) -> dict[str, Any]:
    """Decode and prompt speed at the runner and through LLM; load time; peak memory."""
    path = Path(job["model"])
    start = time.perf_counter()
    runner = open_native(path, job["n_ctx"], job["n_threads"])
    load_runner_s = time.perf_counter() - start
    warm = Sequences(runner, 1, job["n_ctx"])
    warm.extend([job["prompt"]])  # touches every page of the weights
    figures = {"decode_tok_s": time_decode(runner, job["prompt"], job["n_new"])}
    for name, token_ids in job["long_prompts"].items():
        sequences = Sequences(runner, 1, job["n_ctx"])
        start = time.perf_counter()
        sequences.extend([token_ids])
        figures[f"prompt_{name}_tok_s"] = len(token_ids) / (time.perf_counter() - start)
    answer = {"load_runner_s": load_runner_s, "peak_bytes": peak_bytes(), "file_bytes": path.stat().st_size}
    answer["kv_bytes"] = runner.kv_bytes
    runner.close()
    for name, token_ids in job["contexts"].items():
        runner = open_native(path, len(token_ids) + job["n_new"], job["n_threads"])
        figures[f"decode_at_{name}_tok_s"] = time_decode(runner, token_ids, job["n_new"])
        runner.close()
    answer["load_llm_s"], through_llm = measure_llm(job)
    return {**answer, "variants": {"runner": figures, "LLM": through_llm}}


def time_decode(runner: Runner, prompt: Sequence[int], n_new: int) -> float:
    """Tokens a second of greedy decoding after a prompt, which is not on the clock."""
    sequences = Sequences(runner, 1, len(prompt) + n_new)
    for start_of_chunk in range(0, len(prompt), PROMPT_CHUNK):
        logits = sequences.extend([prompt[start_of_chunk : start_of_chunk + PROMPT_CHUNK]])
    token_id = int(np.argmax(logits[0]))
    start = time.perf_counter()
    greedy(sequences, token_id, n_new)
    return n_new / (time.perf_counter() - start)


def measure_llm(job: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """Load time, and the same work through LLM: stages, stop strings and text included, as a user sees it."""
    one = unspool.DecodingParams(temperature=0, max_tokens=1)
    many = unspool.DecodingParams(temperature=0, max_tokens=job["n_new"] + 1, ignore_eos=True)
    start = time.perf_counter()
    llm = unspool.LLM(job["model"], threads=job["n_threads"], context_length=job["n_ctx"])
    load_s = time.perf_counter() - start
    llm.generate(job["prompt"], one)
    figures = {"decode_tok_s": llm.generate(job["prompt"], many).usage.decode_tokens_per_s}
    for name, token_ids in job["long_prompts"].items():
        usage = llm.generate(token_ids, one).usage
        figures[f"prompt_{name}_tok_s"] = usage.prefill_tokens_per_s
    llm.close()
    return load_s, figures


def measure_steps(job: dict[str, Any]) -> dict[str, Any]:
    """Median time of a step with n sequences of one row each, behind another such step, as when they decode;
    all n in every round."""
    most = max(job["rows"])
    runner = open_native(Path(job["model"]), storage_for(most, STEP_PAST + 1), job["n_threads"])
    prompt = (job["prompt"] * STEP_PAST)[:STEP_PAST]
    times: dict[int, list[float]] = {n: [] for n in job["rows"]}
    batches = {}
    for n in job["rows"]:
        batches[n] = Sequences(runner, n, STEP_PAST + 1)
        batches[n].n_past = [STEP_PAST] * n
    Sequences(runner, most, STEP_PAST + 1).extend([prompt] * most)  # every batch reads these pages
    for _ in range(STEP_ROUNDS):
        for n, batch in batches.items():
            for _ in range(2):
                start = time.perf_counter()
                batch.extend([[prompt[0]]] * n)
                last = time.perf_counter() - start
                batch.rewind(STEP_PAST)
            times[n].append(1000 * last)
    runner.close()
    return {"step_ms": {str(n): statistics.median(values) for n, values in times.items()}}


def measure_limits(job: dict[str, Any]) -> dict[str, Any]:
    """Decode steps at several contexts and the reading of a prompt, beside what the machine does at most."""
    passes = []
    for context in job["contexts"]:
        found = breakdown.measure(
            job["model"], threads=job["n_threads"], rows=[1], prompt=0, context=context, rounds=LIMIT_ROUNDS
        )
        passes.append({**asdict(found.passes[0]), "name": f"decode behind {context} tokens"})
    found = breakdown.measure(
        job["model"], threads=job["n_threads"], rows=[8], prompt=job["prompt"], rounds=LIMIT_ROUNDS
    )
    passes += [{**asdict(each), "name": f"a pass of {each.name}"} for each in found.passes]
    return {"passes": passes}


def measure_shared(job: dict[str, Any]) -> dict[str, Any]:
    """Median time of a decode step of n streams behind one prompt, which lies on pages that all of them
    have, or on a copy for each. The tokens are the same, and so are the logits; both kinds take turns."""
    n, prompt = job["streams"], job["prompt"]
    n_shared = len(prompt) // PAGE_SIZE
    each = pages_for(len(prompt) + 1, PAGE_SIZE)
    runner = open_native(Path(job["model"]), n * each * PAGE_SIZE, job["n_threads"])
    first = Sequences(runner, 1, len(prompt) + 1)
    for start_of_chunk in range(0, len(prompt), PROMPT_CHUNK):
        logits = first.extend([prompt[start_of_chunk : start_of_chunk + PROMPT_CHUNK]])
    pages = np.arange(n * each, dtype=np.int32).reshape(n, each)
    for page in pages[1:].ravel():
        runner.copy_page(int(page) % each, int(page))
    tables = {
        "copied": pages,
        "shared": np.concatenate([pages[:1, :n_shared].repeat(n, 0), pages[:, n_shared:]], 1),
    }
    starts = np.arange(n + 1, dtype=np.int32)
    plans = {
        name: Plan(
            token_ids=np.full(n, np.argmax(logits[0]), np.int32),
            seq_start=starts,
            n_past=np.full(n, len(prompt), np.int32),
            page_table=np.ascontiguousarray(table.ravel()),
            page_start=starts * each,
            logits_rows=starts[:-1],
        )
        for name, table in tables.items()
    }
    times: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(SHARED_ROUNDS):
        for name, plan in plans.items():
            start = time.perf_counter()
            runner.forward(plan)
            times[name].append(1000 * (time.perf_counter() - start))
    runner.close()
    return {"step_ms": {name: statistics.median(values) for name, values in times.items()}}


def generate(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy continuations of texts, up to the model's end of text; prompts with BOS as usual."""
    path = resolve(job["model"])
    tokenizer = open_tokenizer(path)
    prompts = [[int(i) for i in tokenizer.encode(text, add_bos=True)] for text in job["texts"]]
    n_tokens = max(map(len, prompts)) + job["n_new"]
    runner = open_native(path, n_tokens, job["n_threads"])
    sequences = []
    for prompt in prompts:
        state = Sequences(runner, 1, n_tokens)
        token_id = int(np.argmax(state.extend([prompt])[0]))
        written = [token_id, *greedy(state, token_id, job["n_new"] - 1)]
        ends = [i for i, chosen in enumerate(written) if chosen in tokenizer.eos_ids]
        sequences.append(prompt + (written[: ends[0] + 1] if ends else written))
    runner.close()
    return {"path": str(path), "sequences": sequences, "prompt_tokens": [len(prompt) for prompt in prompts]}


def scored(job: dict[str, Any], first: Sequence[int], n_drop: int) -> Iterator[tuple[int, Any]]:
    """(index, logits of that sequence from first[index] on), many sequences in one pass.

    The last n_drop tokens of a sequence are targets only and are not read.
    """
    sequences = [sequence[: len(sequence) - n_drop] for sequence in job["sequences"]]
    longest = max(map(len, sequences))
    path, n_tokens = Path(job["model"]), storage_for(len(sequences), longest)
    runner: Runner
    if job["runner"] == "reference":
        runner = open_reference(path, n_tokens)
    else:
        runner = open_native(path, n_tokens, job["n_threads"])
    group = max(1, MAX_LOGITS_BYTES // (4 * runner.vocab_size * longest))
    for start in range(0, len(sequences), group):
        part = range(start, min(start + group, len(sequences)))
        batch = Sequences(runner, len(part), longest)
        logits = batch.extend([sequences[i] for i in part], [first[i] for i in part])
        ends = np.cumsum([len(sequences[i]) - first[i] for i in part])
        yield from zip(part, np.split(logits, ends[:-1]), strict=True)
    runner.close()


def write_logits(job: dict[str, Any]) -> dict[str, Any]:
    """Write the logits of sequence i from position first[i] on to <out>/<i>.npy."""
    for index, logits in scored(job, job["first"], 0):
        np.save(Path(job["out"]) / f"{index}.npy", logits)
    return {}


def write_logprobs(job: dict[str, Any]) -> dict[str, Any]:
    """Write the logprob of every token but the first of sequence i to <out>/<i>.npy."""
    for index, logits in scored(job, [0] * len(job["sequences"]), 1):
        np.save(Path(job["out"]) / f"{index}.npy", target_logprobs(logits, job["sequences"][index][1:]))
    return {}


KINDS = {
    "tokenize": tokenize,
    "speed": measure_speed,
    "batched": batched,
    "steps": measure_steps,
    "limits": measure_limits,
    "shared": measure_shared,
    "generate": generate,
    "score": write_logits,
    "logprobs": write_logprobs,
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    job = json.loads(Path(sys.argv[1]).read_text())
    answer = KINDS[job["kind"]](job)
    answer["program"] = f"unspool {unspool.__version__}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
