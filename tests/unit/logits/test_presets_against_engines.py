"""The presets of `order` give what the engines give, by recorded values of the engines themselves.

Survivors are the same and probabilities equal within 1e-5. Where the engine's own sort decided between equal
logits (`ties`), the ids are not comparable, and the probabilities still are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from preset_cases import Case, array_of, read
from stage_rows import wanting

from unspool.history import History
from unspool.logits.orders import OBSERVERS
from unspool.logits.pipeline import process, process_by_stages, walk
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row

TOLERANCE = 1e-5


def row_of(case: Case, order: str) -> Row:
    params = dict(case["params"])
    words = tuple(map(tuple, case.get("bad_word_ids", [])))
    if words:
        params["bad_words"] = ["their ids are in the rules"]
    rules = Rules(
        bias=tuple((token_id, bias) for token_id, bias in params.get("logit_bias", [])),
        bad_words=words,
        dry_breaker_ids=frozenset(case.get("breaker_ids", [])),
    )
    ids, n_prompt = tuple(case["token_ids"]), case["n_prompt"]
    return Row(DecodingParams(order=order, **params), 1, 0, ids, n_prompt, rules)


def assert_same(kept: np.ndarray, logits: np.ndarray, case: Case) -> None:
    weights = np.exp(logits - logits.max())
    probs = weights / weights.sum()
    if case.get("ties"):
        probs, recorded = np.sort(probs), np.sort(case["probs"])
        assert probs.size == recorded.size
    else:
        assert kept.tolist() == case["kept"], case
        recorded = np.array(case["probs"])
    np.testing.assert_allclose(probs, recorded, rtol=0, atol=TOLERANCE, err_msg=str(case))


def assert_parity(case: Case, order: str) -> None:
    row = row_of(case, order)
    for run in (process_by_stages, process):  # the readable stages, and what requests go through
        (result,) = run(array_of(case["logits"])[None], wanting([row]))
        candidates: Any = result.candidates
        assert_same(candidates.token_ids, candidates.logits, case)


def cases_by_parameter(name: str) -> dict[str, list[Case]]:
    """Cases of one parameter alone under its name, others under "together"."""
    grouped: dict[str, list[Case]] = {}
    for case in read(name):
        if "steps" not in case:
            names = {parameter.partition("_")[0] for parameter in case["params"]}
            grouped.setdefault(names.pop() if len(names) == 1 else "together", []).append(case)
    return grouped


TRANSFORMERS = cases_by_parameter("processors_of_transformers.json")
LLAMA_CPP = cases_by_parameter("samplers_of_llama_cpp.json")
SERIES = [case for case in read("samplers_of_llama_cpp.json") if "steps" in case]


@pytest.mark.parametrize("parameter", TRANSFORMERS)
def test_order_transformers_leaves_what_its_processors_leave(parameter):
    for case in TRANSFORMERS[parameter]:
        assert_parity(case, "transformers")


@pytest.mark.parametrize("parameter", LLAMA_CPP)
def test_order_llama_cpp_leaves_what_its_samplers_leave(parameter):
    for case in LLAMA_CPP[parameter]:
        assert_parity(case, "llama.cpp")


@pytest.mark.parametrize("case", SERIES, ids=lambda case: "-".join(f"{v}" for v in case["params"].values()))
def test_order_llama_cpp_is_steered_as_its_mirostat_and_adaptive_p_are(case):
    params = DecodingParams(order="llama.cpp", **case["params"])
    history, token_ids = History(params, Rules(), (0,)), [0]
    for step in case["steps"]:
        row = Row(params, 1, 0, tuple(token_ids), 1, Rules(), history)
        passed = walk(array_of(step["logits"]).astype(np.float64), row)
        kept = np.flatnonzero(passed[-1].after > -np.inf)
        assert_same(kept, passed[-1].after[kept], step)
        (observer,) = (one for one in passed if one.stage.name in OBSERVERS)
        stage = OBSERVERS[observer.stage.name]
        # Their choice and not ours: the draws differ, what is made of them may not.
        history.accept(
            step["token_id"], stage.observe(observer.before, observer.after, row, step["token_id"])
        )
        token_ids.append(step["token_id"])


def test_the_recordings_reach_every_stage_of_their_order():
    for groups, least in ((TRANSFORMERS, 10), (LLAMA_CPP, 10)):
        assert len(groups) >= least
        n_cases = sum(map(len, groups.values()))
        n_ties = sum(case.get("ties", False) for cases in groups.values() for case in cases)
        assert n_cases > 200
        assert n_ties < n_cases / 10
