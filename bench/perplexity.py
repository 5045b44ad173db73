"""Perplexity of a fixed English text, ours beside llama.cpp's on the same file.

usage: python bench/perplexity.py --peer-python .venv-peers/bin/python [--models NAME ...] [--reference]

The text (the beginning of Hamlet, see text.py) is cut into windows of the same tokens for every program;
each window starts a new sequence, with BOS in its first place when the model's tokenizer adds one. Every
token but a window's first is predicted from those before it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from figures import RESULTS, print_table, save, this_machine
from sides import Side, llama_cpp, ours
from text import hamlet
from workloads import WORKLOADS

MAX_DIFFERENCE = 0.01


def windows(token_ids: list[int], bos: list[int], n_windows: int, length: int) -> list[list[int]]:
    """Consecutive windows of `length` tokens, BOS included in the length."""
    step = length - len(bos)
    assert len(token_ids) >= n_windows * step
    return [bos + token_ids[i * step : (i + 1) * step] for i in range(n_windows)]


def perplexity(side: Side, job: dict[str, Any]) -> float:
    """exp of the mean negative logprob of every predicted token."""
    with tempfile.TemporaryDirectory() as folder:
        side.run({**job, "out": folder})
        logprobs = [np.load(Path(folder) / f"{i}.npy") for i in range(len(job["sequences"]))]
    return math.exp(-float(np.concatenate(logprobs).mean()))


def measure(us: Side, them: Side, model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    text = hamlet(RESULTS / "scratch")[: arguments.windows * arguments.length * 6]
    tokens = us.run({"kind": "tokenize", "model": model, "texts": [text], "bos": False})
    sequences = windows(tokens["token_ids"][0], tokens["bos"], arguments.windows, arguments.length)
    job = {
        "kind": "logprobs",
        "model": tokens["path"],
        "sequences": sequences,
        "n_threads": arguments.threads,
        "flash": arguments.flash,
    }
    found = {
        "unspool": perplexity(us, {**job, "runner": "native"}),
        "llama.cpp": perplexity(them, job),
    }
    if arguments.reference:
        found["reference"] = perplexity(us, {**job, "runner": "reference"})
    return {"model": model, "n_tokens": sum(map(len, sequences)), "perplexity": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer-python", required=True, help="Python of an environment with llama-cpp-python")
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--windows", type=int, default=1, help="windows of text (default %(default)s)")
    parser.add_argument("--length", type=int, default=4096, help="tokens a window (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default %(default)s)")
    parser.add_argument("--flash", choices=("on", "off"), default="on", help="llama.cpp's flash attention")
    parser.add_argument("--reference", action="store_true", help="also the float32 reference (slow)")
    arguments = parser.parse_args()
    us, them = ours(), llama_cpp(arguments.peer_python)
    results = [measure(us, them, model, arguments) for model in arguments.models]
    rows = []
    for result in results:
        found = result["perplexity"]
        ratio = found["unspool"] / found["llama.cpp"]
        reference = f"{found['reference']:.4f}" if "reference" in found else ""
        bar = "met" if abs(ratio - 1) <= MAX_DIFFERENCE else "MISSED"
        rows.append(
            [
                result["model"],
                str(result["n_tokens"]),
                f"{found['unspool']:.4f}",
                f"{found['llama.cpp']:.4f}",
                reference,
                f"{ratio:.4f}",
                bar,
            ]
        )
    print_table(["perplexity", "tokens", "unspool", "llama.cpp", "reference", "ratio", "within 1 %"], rows)
    save("perplexity", this_machine(), {"models": results})


if __name__ == "__main__":
    main()
