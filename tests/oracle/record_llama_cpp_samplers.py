"""Records what llama.cpp's sampler chain makes of random rows.

    PYTHONPATH=tests/support python tests/oracle/record_llama_cpp_samplers.py MODEL.gguf  # peers environment

Writes tests/data/samplers_of_llama_cpp.json. Each sampler runs alone over a grid of values, and all of
them together in the default order. XTC runs with probability 1, so that its random number decides nothing.
Mirostat and adaptive-p choose inside: their cases are series of steps with the token that was chosen. DRY
wants a vocabulary to look its breakers up in; the model file (SmolLM2's) gives that and nothing else.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import llama_cpp as lib
import numpy as np
from preset_cases import Case, array_of, outcome, random_logits, random_text, recorded, write

N_VOCAB = 24
N_LARGE = 150  # more than the hundred that mirostat 1 looks at
DEFAULT_WINDOW = 64

ALONE: tuple[tuple[dict[str, Any], ...], ...] = (
    tuple({"repetition_penalty": value} for value in (0.8, 1.3, 2.0)),
    tuple({"frequency_penalty": value} for value in (-0.5, 0.7)),
    tuple({"presence_penalty": value} for value in (-0.5, 1.5)),
    ({"repetition_penalty": 1.5, "frequency_penalty": 0.5, "presence_penalty": 0.2, "penalty_window": 4},),
    tuple({"dry_multiplier": 0.8, "dry_allowed_length": value, "dry_breakers": []} for value in (1, 2, 4)),
    ({"dry_multiplier": 2.0, "dry_base": 1.1, "dry_window": 6, "dry_breakers": []},),
    tuple({"top_n_sigma": value} for value in (0.5, 1.0, 2.0)),
    tuple({"top_k": value} for value in (1, 3, 8, 50)),
    tuple({"typical_p": value} for value in (0.1, 0.3, 0.5, 0.9)),
    tuple({"top_p": value} for value in (0.1, 0.5, 0.8, 0.95)),
    tuple({"min_p": value} for value in (0.02, 0.1, 0.5, 1.0)),
    tuple({"xtc_probability": 1.0, "xtc_threshold": value} for value in (0.02, 0.1, 0.3, 0.6)),
    tuple({"temperature": value} for value in (0.3, 0.7, 2.0)),
    ({"dynatemp_min": 0.5, "dynatemp_max": 1.5},),
    ({"dynatemp_min": 0.0, "dynatemp_max": 3.0, "dynatemp_exponent": 2.0},),
)
ROWS_ALONE = 5
ROWS_TOGETHER = 100
STEERED: tuple[dict[str, Any], ...] = (
    {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.3},
    {"mirostat": 2, "mirostat_tau": 1.0, "mirostat_eta": 0.1, "temperature": 1.5},
    {"mirostat": 1, "mirostat_tau": 3.0, "mirostat_eta": 0.3},
    {"mirostat": 1, "mirostat_tau": 2.0, "mirostat_eta": 0.1, "temperature": 0.7},
    {"adaptive_target": 0.3, "adaptive_decay": 0.5},
    {"adaptive_target": 0.7, "adaptive_decay": 0.9, "min_p": 0.05},
)
STEPS = 8


class Chain:
    """llama.cpp's chain for parameters; `apply` runs it on a row."""

    def __init__(self, params: dict[str, Any], vocab: Any, n_vocab: int) -> None:
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        self._keep_alive: list[Any] = []
        for sampler in self._samplers(params, vocab, n_vocab):
            lib.llama_sampler_chain_add(self._chain, sampler)

    def _samplers(self, p: dict[str, Any], vocab: Any, n_vocab: int) -> list[Any]:
        bias = p.get("logit_bias", [])
        biases = (lib.llama_logit_bias * max(1, len(bias)))(*map(tuple, bias))
        self._keep_alive.append(biases)
        samplers = [lib.llama_sampler_init_logit_bias(n_vocab, len(bias), biases)]
        temperature = p.get("temperature", 1.0)
        if p.get("mirostat"):  # common/sampling.cpp leaves everything else out then
            samplers.append(lib.llama_sampler_init_temp(temperature))
            tau, eta = p["mirostat_tau"], p["mirostat_eta"]
            samplers.append(
                lib.llama_sampler_init_mirostat(n_vocab, 7, tau, eta, 100)
                if p["mirostat"] == 1
                else lib.llama_sampler_init_mirostat_v2(7, tau, eta)
            )
            return samplers
        samplers.append(
            lib.llama_sampler_init_penalties(
                n_vocab,
                p.get("penalty_window", DEFAULT_WINDOW),
                p.get("repetition_penalty", 1.0),
                p.get("frequency_penalty", 0.0),
                p.get("presence_penalty", 0.0),
            )
        )
        texts = [text.encode() for text in p.get("dry_breakers", [])]
        breakers = (ctypes.c_char_p * max(1, len(texts)))(*texts)
        self._keep_alive.append(breakers)
        samplers.append(
            lib.llama_sampler_init_dry(
                vocab,
                p.get("dry_multiplier", 0.0),
                p.get("dry_base", 1.75),
                p.get("dry_allowed_length", 2),
                p.get("dry_window", DEFAULT_WINDOW),
                breakers,
                len(texts),
            )
        )
        samplers += [
            lib.llama_sampler_init_top_n_sigma(p.get("top_n_sigma", 0.0)),
            lib.llama_sampler_init_top_k(p.get("top_k", 0)),
            lib.llama_sampler_init_typical(p.get("typical_p", 1.0), 0),
            lib.llama_sampler_init_top_p(p.get("top_p", 1.0), 0),
            lib.llama_sampler_init_min_p(p.get("min_p", 0.0), 0),
            lib.llama_sampler_init_xtc(p.get("xtc_probability", 0.0), p.get("xtc_threshold", 0.1), 0, 7),
        ]
        if "dynatemp_min" in p:
            low, high = p["dynatemp_min"], p["dynatemp_max"]
            middle, half = (low + high) / 2, (high - low) / 2
            exponent = p.get("dynatemp_exponent", 1.0)
            samplers.append(lib.llama_sampler_init_temp_ext(middle, half, exponent))
        else:
            samplers.append(lib.llama_sampler_init_temp(temperature))
        if "adaptive_target" in p:
            target, decay = p["adaptive_target"], p["adaptive_decay"]
            samplers.append(lib.llama_sampler_init_adaptive_p(target, decay, 7))
        return samplers

    def accept(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            lib.llama_sampler_accept(self._chain, token_id)

    def apply(self, z: np.ndarray) -> tuple[np.ndarray, int | None]:
        """The logits (V,) that are left, and the token id where a sampler of the chain chooses."""
        data = (lib.llama_token_data * z.size)(*((i, float(x), 0.0) for i, x in enumerate(z) if x > -np.inf))
        n_alive = int(np.count_nonzero(z > -np.inf))  # a masked candidate would count as one there
        array = lib.llama_token_data_array(data, n_alive, -1, False)
        lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        left = np.full(z.size, -np.inf, dtype=np.float32)
        for i in range(array.size):
            left[array.data[i].id] = array.data[i].logit
        return left, (array.data[array.selected].id if array.selected >= 0 else None)

    def free(self) -> None:
        lib.llama_sampler_free(self._chain)


def left_of(case: Case, vocab: Any) -> np.ndarray:
    """The logits (V,) that the chain leaves of the case's row."""
    z = array_of(case["logits"])
    chain = Chain(case["params"], vocab, z.size)
    chain.accept(case["token_ids"])
    left, _ = chain.apply(z)
    chain.free()
    return left


def row(rng: np.random.Generator, params: dict[str, Any]) -> Case:
    token_ids, n_prompt = random_text(rng, N_VOCAB)
    if "window" in str(params) or rng.random() < 0.1:
        token_ids = rng.integers(0, N_VOCAB, size=60).tolist() + token_ids  # longer than the window of 64
        n_prompt += 60
    logits = random_logits(rng, N_VOCAB)
    return {"params": params, "logits": logits, "token_ids": token_ids, "n_prompt": n_prompt}


def together(rng: np.random.Generator) -> Case:
    chosen: dict[str, Any] = {}
    for kind in ALONE[:-2]:
        if rng.random() < 0.3:
            chosen |= kind[rng.integers(len(kind))]
    if rng.random() < 0.2:
        chosen.pop("temperature", None)
        chosen |= {"dynatemp_min": 0.5, "dynatemp_max": 2.0}
    if "top_n_sigma" in chosen:  # leaves dead candidates in the list, which these two then count
        for name in ("typical_p", "dynatemp_min", "dynatemp_max"):
            chosen.pop(name, None)
    if rng.random() < 0.3:
        ids = rng.choice(N_VOCAB, size=3, replace=False).tolist()
        chosen["logit_bias"] = [[token_id, float(rng.integers(-8, 9)) / 2] for token_id in sorted(ids)]
    return row(rng, chosen)


def broken(rng: np.random.Generator, vocab: Any) -> Case:
    """DRY with a breaker that is one token of this vocabulary."""
    case = row(rng, {"dry_multiplier": 1.0, "dry_breakers": ["!"]})
    breaker = next(i for i in range(N_VOCAB) if lib.llama_vocab_get_text(vocab, i) == b"!")
    span = [1, 2, breaker, 3, 4]
    case["token_ids"] = [*span, 5, *span[: int(rng.integers(2, 6))]]
    return case | {"n_prompt": 3, "breaker_ids": [breaker]}


def series(rng: np.random.Generator, params: dict[str, Any], n_vocab: int, vocab: Any) -> Case:
    chain = Chain(params, vocab, n_vocab)
    steps = []
    for _ in range(STEPS):
        logits = random_logits(rng, n_vocab)
        if params.get("mirostat") == 1:  # counts the whole vocabulary, masked tokens included
            logits = [0.0 if x is None else x for x in logits]
        left, token_id = chain.apply(array_of(logits))
        assert token_id is not None
        chain.accept([token_id])
        steps.append({"logits": logits, "token_id": token_id} | outcome(left))
    chain.free()
    return {"params": params, "steps": steps}


def cases(vocab: Any) -> list[Case]:
    rng = np.random.default_rng(5)
    made = [row(rng, params) for kind in ALONE for params in kind for _ in range(ROWS_ALONE)]
    made += [together(rng) for _ in range(ROWS_TOGETHER)]
    made += [broken(rng, vocab) for _ in range(6)]
    steered = [series(rng, params, N_VOCAB, vocab) for params in STEERED]
    steered.append(series(rng, {"mirostat": 1, "mirostat_tau": 5.0, "mirostat_eta": 0.1}, N_LARGE, vocab))
    return [recorded(case, lambda each: left_of(each, vocab)) for case in made] + steered


_SILENT = lib.llama_log_callback(lambda *_: None)  # llama.cpp calls it as long as the process lives


def main(model_file: str) -> None:
    lib.llama_log_set(_SILENT, None)
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(model_file.encode(), params)
    source = f"llama.cpp through llama-cpp-python {lib.__version__}"
    write("samplers_of_llama_cpp.json", source, cases(lib.llama_model_get_vocab(model)))


if __name__ == "__main__":
    main(sys.argv[1])
