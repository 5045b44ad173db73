"""Random rows on which the fused pass and the stages must agree.

usage: python tests/support/fused_agreement.py [--rows N] [--seed S] [--isa NAME]

Every row draws a vocabulary of 8 to 262,144, logits of one of several kinds (smooth, with ties, all equal,
masked, at the ends of float32, now and then no numbers), parameters of any combination of stages in any
order, a text and what the parameters mean in its ids. Run as a program it counts rows that differ and shows
the first of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from stage_rows import wanting

from unspool.errors import BadRequest, UnspoolError
from unspool.history import History
from unspool.logits import fused
from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Processed, Row

LARGEST = 262_144
# Larger vocabularies are rarer: the stages need a second for a dozen of them.
SIZES = (
    (8, 64, 0.4),
    (64, 2000, 0.42),
    (2000, 20_000, 0.15),
    (20_000, 80_000, 0.025),
    (80_000, LARGEST, 0.005),
)


@dataclass(frozen=True)
class Case:
    logits: np.ndarray  # (V,) f32
    row: Row


def cases(seed: int, n: int, largest: int = LARGEST) -> Iterator[Case]:
    for number in range(n):
        yield case(np.random.default_rng((seed, number)), largest)


def case(rng: np.random.Generator, largest: int = LARGEST) -> Case:
    low, high, _ = SIZES[rng.choice(len(SIZES), p=[share for *_, share in SIZES])]
    n_vocab = min(int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))), largest)
    text = [
        int(i) for i in rng.integers(0, min(n_vocab, rng.choice([3, 8, 40, n_vocab])), rng.integers(0, 60))
    ]
    n_prompt = int(rng.integers(0, len(text) + 1))
    while True:
        try:
            params, rules = random_request(rng, n_vocab)
            break
        except BadRequest:  # a combination that contradicts itself
            continue
    history = None
    if rng.random() < 0.5:
        history = History(params, rules, text[:n_prompt])
        for token_id in text[n_prompt:]:
            history.accept(token_id, float(rng.uniform(0, 1)))
    seed, branch = int(rng.integers(0, 2**64, dtype=np.uint64)), int(rng.integers(0, 4))
    return Case(random_logits(rng, n_vocab), Row(params, seed, branch, text, n_prompt, rules, history))


def random_logits(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(0, 10)
    if kind <= 2:
        z = rng.normal(size=n) * rng.choice([0.1, 1, 3, 10])
    elif kind == 3:  # as a model's: a few likely ones above a broad rest
        z = rng.normal(size=n) * 2.5 - 5
        z[rng.integers(0, n, 20)] += rng.exponential(6, 20)
    elif kind <= 5:  # ties everywhere
        z = np.round(rng.normal(size=n) * rng.choice([1, 4])) / rng.choice([1, 4])
    elif kind == 6:
        z = np.full(n, rng.choice([0.0, -3.5, 1e30]))
    elif kind == 7:  # one sure token
        z = rng.normal(size=n)
        z[rng.integers(0, n)] += rng.choice([20, 200])
    elif kind == 8:  # the ends of float32
        ends = [3.4e38, -3.4e38, 1e-45, -1e-45, 0.0, 1e30, -1e30, 88.0, -88.0, 1.0]
        z = rng.choice(ends, n)
    else:
        z = rng.normal(size=n) * 2 + rng.choice([-1e4, 1e4, 1e6])
    z = z.astype(np.float32)
    if rng.random() < 0.3:
        z[rng.random(n) < rng.choice([0.1, 0.5, 0.99])] = -np.inf
    if rng.random() < 0.01:
        z[rng.integers(0, n)] = rng.choice([np.nan, np.inf, -np.inf])
    return z


def _stages(rng: np.random.Generator) -> dict:
    """Parameters of arranged stages, each on now and then, values at their ends among them."""
    chance = rng.choice([0.1, 0.25, 0.5])
    choices = {
        "top_n_sigma": [1e-9, 0.5, 1.0, 2.0, 50.0],
        "top_k": [1, 2, 5, 50, 300, 3000, 10**9],
        "top_p": [1e-9, 0.1, 0.5, 0.9, 0.95, 0.999, float(rng.uniform(0.01, 1))],
        "min_p": [1e-9, 0.01, 0.05, 0.3, 1.0, float(rng.uniform(0.001, 1))],
        "typical_p": [1e-9, 0.2, 0.5, 0.9, 0.99, float(rng.uniform(0.01, 1))],
        "top_h": [1e-9, 0.3, 0.6, 0.95, float(rng.uniform(0.01, 1))],
        "epsilon_cutoff": [1e-9, 3e-4, 0.01, 0.5],
        "eta_cutoff": [1e-9, 3e-4, 0.01, 0.5],
        "top_a": [1e-6, 0.1, 0.5, 1.0],
        "tfs_z": [1e-9, 0.2, 0.5, 0.9, 0.99],
        "xtc_probability": [0.3, 0.7, 1.0],
    }
    asked = {name: _one(rng, values) for name, values in choices.items() if rng.random() < chance}
    if "xtc_probability" in asked:
        asked["xtc_threshold"] = _one(rng, [0.0, 0.001, 0.05, 0.1, 0.3, 0.5])
    if rng.random() < 0.1:
        asked = {"mirostat": _one(rng, [1, 2]), "mirostat_tau": _one(rng, [0.1, 1.0, 3.0, 5.0, 60.0])}
    elif rng.random() < 0.1:
        asked |= {"adaptive_target": _one(rng, [0.0, 0.1, 0.4, 1.0])}
    return asked


def _temperature(rng: np.random.Generator) -> dict:
    kind = rng.integers(0, 8)
    if kind == 0:
        return {"temperature": 0.0}
    if kind == 1:
        low, high = sorted(rng.choice([0, 0.1, 0.5, 1, 1.5, 5, 100], 2).tolist())
        return {"dynatemp_min": low, "dynatemp_max": high, "dynatemp_exponent": _one(rng, [0.1, 1.0, 3.0])}
    if kind == 2:
        return {
            "edt_theta": _one(rng, [0.1, 0.5, 100.0]),
            "edt_base": 0.8,
            "temperature": _one(rng, [0.3, 1.0]),
        }
    if kind == 3:
        return {
            "smoothing_factor": _one(rng, [1e-9, 0.2, 100.0]),
            "smoothing_curve": _one(rng, [1.0, 1.7, 3.0]),
        }
    if kind == 4:
        return {}
    return {"temperature": _one(rng, [5e-324, 1e-30, 0.1, 0.7, 1.3, 2.0, 100.0])}


def _edits(rng: np.random.Generator, n_vocab: int) -> tuple[dict, dict]:
    """Parameters of masks, penalties and bias, and their rules."""
    params: dict = {}
    rules: dict = {}

    def ids(n: int) -> list[int]:
        return [int(i) for i in rng.integers(0, n_vocab, n)]

    chance = rng.choice([0.05, 0.2, 0.4])

    def asked() -> bool:
        return bool(rng.random() < chance)

    if asked():
        params["repetition_penalty"] = _one(rng, [1e-300, 0.5, 1.1, 1.3, 100.0])
    if asked():
        params["frequency_penalty"] = _one(rng, [-2.0, 0.3, 1.0, 2.0])
    if asked():
        params["presence_penalty"] = _one(rng, [-2.0, 0.3, 1.0, 2.0])
    if asked():
        params["penalty_scope"] = _one(rng, ["all", "prompt", "output"])
    if asked():
        params["penalty_window"] = _one(rng, [1, 5, 30])
    if asked():
        params["dry_multiplier"] = _one(rng, [0.5, 2.0, 100.0])
        params["dry_allowed_length"] = _one(rng, [1, 2, 4])
        rules["dry_breaker_ids"] = frozenset(ids(2))
    if asked():
        bias = {i: _one(rng, [-100.0, -1.0, 0.5, 30.0, 100.0]) for i in ids(int(rng.integers(1, 30)))}
        params["logit_bias"] = bias
        rules["bias"] = tuple(sorted(bias.items()))
    if asked():
        banned = ids(int(rng.integers(1, 10)))
        params["banned_token_ids"] = banned
        rules["banned_ids"] = frozenset(banned)
    if asked() and rng.random() < 0.3:
        params["allowed_token_ids"] = ids(int(rng.integers(1, 20)))
    if asked():
        params["bad_words"] = ["word"]
        rules["bad_words"] = tuple(tuple(ids(n)) for n in (1, 2, 3))
    if asked():
        params["no_repeat_ngram_size"] = _one(rng, [1, 2, 3])
    if asked():
        params["min_tokens"] = _one(rng, [1, 10, 200])
    rules["end_ids"] = frozenset(ids(3))
    rules["newline_ids"] = frozenset(ids(2))
    return params, rules


def random_request(rng: np.random.Generator, n_vocab: int) -> tuple[DecodingParams, Rules]:
    """Raises BadRequest for what contradicts itself."""
    edits, rules = _edits(rng, n_vocab)
    kinds = rng.random()
    order: object = "unspool"
    if kinds < 0.2:
        order = _one(rng, ["vllm", "llama.cpp", "transformers"])
    elif kinds < 0.45:
        order = rng.permutation(ALL).tolist()
    params = {**_stages(rng), **_temperature(rng), **edits, "order": order}
    while True:
        try:
            return DecodingParams(**params), Rules(**rules)
        except BadRequest as error:
            # What the preset leaves out is left out here too; other contradictions are drawn anew.
            left_out = str(error).split(" is ")[0]
            if error.code != "bad_order" or left_out not in params:
                raise
            del params[left_out]


PLAIN = DecodingParams().to_dict()
ALL = (
    "repetition", "frequency", "presence", "dry", "bias", "temperature", "top_n_sigma", "top_k", "top_p",
    "min_p", "typical", "top_h", "epsilon", "eta", "top_a", "tfs", "xtc", "mirostat", "adaptive",
)  # fmt: skip


def _one(rng: np.random.Generator, values: list):
    return values[int(rng.integers(0, len(values)))]


def difference(case: Case, isa: str = "") -> str | None:
    """What the fused pass does otherwise than the stages; None when nothing."""
    before = case.logits.tobytes()
    [fast] = fused.process(case.logits[None], wanting([case.row]), isa=isa)
    if case.logits.tobytes() != before:
        return "the model's logits have changed"
    with np.errstate(all="raise", under="ignore"):
        [slow] = process_by_stages(case.logits[None], wanting([case.row]))
    if isinstance(slow, UnspoolError) or fast is None:
        if isinstance(slow, UnspoolError) and fast is None:
            return None
        return f"stages {slow if isinstance(slow, UnspoolError) else 'choose'}, fused {fast and 'chooses'}"
    return _between(slow, fast)


def _between(slow: Processed, fast: Processed) -> str | None:
    assert slow.candidates is not None
    assert fast.candidates is not None
    if not np.array_equal(slow.candidates.token_ids, fast.candidates.token_ids):
        only_slow = np.setdiff1d(slow.candidates.token_ids, fast.candidates.token_ids)
        only_fast = np.setdiff1d(fast.candidates.token_ids, slow.candidates.token_ids)
        return (
            f"of {slow.candidates.token_ids.size} and {fast.candidates.token_ids.size} candidates "
            f"{only_slow[:5]} only by stages, {only_fast[:5]} only fused"
        )
    if not _close(slow.candidates.logits, fast.candidates.logits):
        worst = np.abs(slow.candidates.logits - fast.candidates.logits).argmax()
        return f"logits differ, {slow.candidates.logits[worst]} and {fast.candidates.logits[worst]}"
    if slow.chosen.token_id != fast.chosen.token_id:
        return f"stages choose {slow.chosen.token_id}, fused {fast.chosen.token_id}"
    expected, observed = slow.chosen.observed, fast.chosen.observed
    if (expected is None) != (observed is None):
        return f"stages observe {expected}, fused {observed}"
    if expected is not None and not np.isclose(expected, observed, rtol=1e-6, atol=1e-9):
        return f"stages observe {expected}, fused {observed}"
    return None


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if np.allclose(a, b, rtol=1e-9, atol=1e-9):
        return True
    # A temperature that an entropy of 1e-13 has made has the digits of a rounding error; no probability can
    # tell.
    p, q = np.exp(a - a.max()), np.exp(b - b.max())
    return bool(np.allclose(p / p.sum(), q / q.sum(), rtol=0, atol=1e-9))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--isa", default="")
    arguments = parser.parse_args()
    n_different, start = 0, time.time()
    for number in range(arguments.rows):
        one = case(np.random.default_rng((arguments.seed, number)))
        told = difference(one, arguments.isa)
        if told is not None:
            n_different += 1
            if n_different <= 20:
                asked = {k: v for k, v in one.row.params.to_dict().items() if v != PLAIN[k]}
                print(f"row {number}, V {one.logits.size}: {told}\n    {asked}", flush=True)
    print(f"{arguments.rows} rows, {n_different} differ ({time.time() - start:.0f} s)")
    sys.exit(n_different > arguments.rows // 100_000)


if __name__ == "__main__":
    main()
