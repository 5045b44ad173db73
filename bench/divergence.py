"""How far the native runner's next-token distributions are from the float32 reference, and llama.cpp's.

usage: python bench/divergence.py [--peer-python .venv-peers/bin/python] [--models MODEL ...] [--tokens N]

For each model the native runner continues twenty fixed prompts greedily. The same token sequences are
then scored three times: by the reference runner (NumPy, float32 arithmetic on the file's own
dequantized weights, K and V rounded to float16 as in every runner), by the native runner, and by
llama.cpp (its default f16 KV), where --peer-python has it. For every generated position: KL(reference ||
program) in nats, and whether both put the same token first. The reference is slow, so its logits are kept in
bench/results/scratch and used again for the same file and tokens.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from figures import RESULTS, print_table, save, this_machine
from prompts import PROMPTS
from scoring import F64, log_softmax
from sides import Side, llama_cpp, ours
from workloads import WORKLOADS

MAX_MEAN_KL = 0.01
MIN_TOP1 = 0.97


@dataclass(frozen=True, slots=True)
class Divergence:
    """Of one program from the reference, over all scored positions."""

    kl: F64  # (N,) nats
    same_top1: npt.NDArray[np.bool_]  # (N,)

    def as_dict(self) -> dict[str, float]:
        return {
            "n_positions": len(self.kl),
            "mean_kl": float(self.kl.mean()),
            "p99_kl": float(np.quantile(self.kl, 0.99)),
            "max_kl": float(self.kl.max()),
            "top1": float(self.same_top1.mean()),
        }


def divergence(reference: Path, program: Path, n_sequences: int) -> Divergence:
    """Compare two folders of <i>.npy, each (N_i, V) logits."""
    kls, agreements = [], []
    for index in range(n_sequences):
        p = log_softmax(np.load(reference / f"{index}.npy"))
        q = log_softmax(np.load(program / f"{index}.npy"))
        if p.shape != q.shape:
            sys.exit(f"error: sequence {index} has logits {q.shape}, the reference has {p.shape}")
        kls.append((np.exp(p) * (p - q)).sum(axis=1))
        agreements.append(p.argmax(axis=1) == q.argmax(axis=1))
    return Divergence(np.concatenate(kls), np.concatenate(agreements))


def reference_folder(us: Side, job: dict[str, Any], scratch: Path) -> Path:
    """Logits of the reference runner, from the scratch folder when they are there already."""
    key = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:16]
    folder = scratch / f"reference-{key}"
    done = folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        us.run({**job, "runner": "reference", "out": str(folder)})
        done.touch()
    return folder


def measure(us: Side, them: Side | None, model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    texts = list(PROMPTS[: arguments.prompts])
    generated = us.run(
        {
            "kind": "generate",
            "model": model,
            "texts": texts,
            "n_new": arguments.tokens,
            "n_threads": arguments.threads,
        }
    )
    # The last token is only a target: nothing after it is scored.
    sequences = [sequence[:-1] for sequence in generated["sequences"]]
    first = [n_prompt - 1 for n_prompt in generated["prompt_tokens"]]
    job = {
        "kind": "score",
        "model": generated["path"],
        "sequences": sequences,
        "first": first,
        "n_threads": 2,
    }
    reference = reference_folder(us, job, arguments.scratch)
    sides = [("unspool", us, {"runner": "native"})]
    if them is not None:
        sides.append(("llama.cpp", them, {"flash": arguments.flash}))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, side, extra in sides:
            out = Path(folder) / name
            out.mkdir()
            side.run({**job, **extra, "out": str(out)})
            results[name] = divergence(reference, out, len(sequences)).as_dict()
            for file in out.iterdir():
                file.unlink()
    return {"model": model, "programs": results}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer-python", help="Python of an environment with llama-cpp-python")
    parser.add_argument(
        "--models", nargs="+", default=list(WORKLOADS), metavar="MODEL", help="names or paths"
    )
    parser.add_argument("--tokens", type=int, default=48, help="tokens a prompt (default %(default)s)")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help="only the first N prompts")
    parser.add_argument("--threads", type=int, default=2, help="threads (default %(default)s)")
    parser.add_argument("--flash", choices=("on", "off"), default="on", help="llama.cpp's flash attention")
    parser.add_argument("--scratch", type=Path, default=RESULTS / "scratch", help="keeps reference logits")
    arguments = parser.parse_args()
    us, them = ours(), llama_cpp(arguments.peer_python) if arguments.peer_python else None
    results = [measure(us, them, model, arguments) for model in arguments.models]
    rows = []
    for result in results:
        most_kl = min([MAX_MEAN_KL, *(each["mean_kl"] for each in result["programs"].values())])
        least_top1 = max([MIN_TOP1, *(each["top1"] for each in result["programs"].values())])
        for name, figures in result["programs"].items():
            met = figures["mean_kl"] <= most_kl and figures["top1"] >= least_top1
            rows.append(
                [
                    f"{result['model']}, {name}",
                    str(figures["n_positions"]),
                    *(f"{figures[key]:.2e}" for key in ("mean_kl", "p99_kl", "max_kl")),
                    f"{100 * figures['top1']:.2f} %",
                    ("met" if met else "MISSED") if name == "unspool" else "",
                ]
            )
    print_table(
        ["from the float32 reference", "positions", "mean KL", "99 % KL", "max KL", "top-1", "bar"], rows
    )
    save("divergence", this_machine(), {"tokens": arguments.tokens, "models": results})


if __name__ == "__main__":
    main()
