"""One token's way from logits to choice, as every program is asked to do it; imports none of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

SIZES: Final = (49_152, 151_936, 262_144)  # vocabularies of SmolLM2, Qwen2.5 and Gemma 3
N_HISTORY: Final = 500  # tokens that the penalties look at
N_BIASED: Final = 100
N_ROWS: Final = 8  # rows taken in turn, so that none is in the innermost cache because it was just read
REPETITION, FREQUENCY, PRESENCE = 1.1, 0.2, 0.1
TEMPERATURE, TOP_K, TOP_P, MIN_P = 0.8, 50, 0.95, 0.05
WARM_UP: Final = 3  # calls that are not timed


def make_rows(n_vocab: int) -> F32:
    """Logits (N_ROWS, n_vocab) as a model has them: a broad rest, and some tokens that stand out."""
    rng = np.random.default_rng(n_vocab)
    rows = rng.normal(-5, 2.5, size=(N_ROWS, n_vocab))
    for row in rows:
        row[rng.integers(0, n_vocab, 40)] += rng.exponential(6, 40)
    return rows.astype(np.float32)


def history(n_vocab: int) -> list[int]:
    ids: list[int] = np.random.default_rng(1).integers(0, n_vocab, N_HISTORY).tolist()
    return ids


def biases(n_vocab: int) -> dict[int, float]:
    rng = np.random.default_rng(2)
    ids = rng.choice(n_vocab, N_BIASED, replace=False).tolist()
    return dict(zip(ids, rng.uniform(-5, 5, N_BIASED).tolist(), strict=True))


Step = Callable[[int], float]  # chooses a token for the i-th call and says how many seconds it took


def median_us(step: Step, n_calls: int) -> float:
    return 1e6 * statistics.median([step(i) for i in range(WARM_UP + n_calls)][WARM_UP:])


def measure(
    job: dict[str, Any], full_pipeline: Callable[[F32], Step], temperature_alone: Callable[[F32], Step]
) -> dict[str, Any]:
    """Both figures for every vocabulary of a job; each function makes the steps over rows of logits."""
    figures = {}
    for path in job["logits"]:
        rows: F32 = np.load(path)
        figures[str(rows.shape[1])] = {
            "full_us": median_us(full_pipeline(rows), job["n_calls"]),
            "temperature_us": median_us(temperature_alone(rows), job["n_calls"]),
        }
    return {"figures": figures}


def write_rows(folder: Path, sizes: Sequence[int]) -> list[str]:
    """The rows of each vocabulary as files, so that all programs read the same numbers."""
    paths = []
    for n_vocab in sizes:
        path = folder / f"{n_vocab}.npy"
        np.save(path, make_rows(n_vocab))
        paths.append(str(path))
    return paths
