"""Promise 1 on a real model: tokens do not depend on the batch, the chunks, the pages or the threads."""

from __future__ import annotations

import pytest

from unspool import LLM, DecodingParams, Limits

pytestmark = pytest.mark.model

GREEDY = DecodingParams(temperature=0, max_tokens=16)
SAMPLED = DecodingParams(temperature=0.9, top_p=0.95, min_p=0.02, max_tokens=16, seed=11)
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea, there lived",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 4, 5,",
    "世界",
]


@pytest.fixture(scope="module")
def path(model_path):
    return model_path("smollm2-135m")


@pytest.fixture(scope="module")
def alone(path):
    """Every prompt greedily and sampled, one request at a time, on one thread."""
    with LLM(path, threads=1) as llm:
        return [llm.generate(prompt, params).token_ids for params in (GREEDY, SAMPLED) for prompt in PROMPTS]


def test_greedy_text_makes_sense(path):
    with LLM(path, threads=1) as llm:
        assert llm.generate(PROMPTS[0], GREEDY).text.startswith(" Paris")


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": 1},
        {"threads": 2},
        {"threads": 2, "page_size": 16},
        {"threads": 1, "limits": Limits(n_rows=10, n_tasks=10)},
        {"threads": 2, "limits": Limits(n_rows=13, n_tasks=3)},
    ],
    ids=["batch", "threads", "pages", "chunks", "queue"],
)
def test_all_at_once_gives_what_each_gives_alone(path, alone, settings):
    with LLM(path, **settings) as llm:
        params = [GREEDY] * len(PROMPTS) + [SAMPLED] * len(PROMPTS)
        together = llm.generate(PROMPTS * 2, params)
        assert [done.token_ids for done in together] == alone
