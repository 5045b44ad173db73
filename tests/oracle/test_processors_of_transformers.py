"""The recorded values of transformers' processors are what the installed version gives."""

from __future__ import annotations

import numpy as np
import pytest
from preset_cases import array_of, outcome, read
from stage_rows import wanting
from transformers import GenerationConfig
from transformers_processors import processed

from unspool.logits.pipeline import process_by_stages
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Row

pytestmark = pytest.mark.oracle


def test_the_recorded_rows_come_out_the_same() -> None:
    cases = read("processors_of_transformers.json")
    assert len(cases) > 200
    for case in cases:
        result = outcome(processed(case))
        assert result["kept"] == case["kept"], case
        np.testing.assert_allclose(result["probs"], case["probs"], rtol=0, atol=1e-5)


def test_what_is_read_from_a_generation_config_does_what_the_config_does() -> None:
    for case in read("processors_of_transformers.json"):
        if "bad_word_ids" in case or case.get("ties") or "top_k" not in case["params"]:
            continue  # bad words are texts here, and top_k is 50 where nobody says
        given = {name: value for name, value in case["params"].items() if name != "logit_bias"}
        bias = case["params"].get("logit_bias")
        config = GenerationConfig(
            do_sample=True, max_new_tokens=9, sequence_bias=bias and [[[i], x] for i, x in bias], **given
        )
        params, _ = DecodingParams.from_transformers(config)
        row = Row(params, 1, 0, tuple(case["token_ids"]), case["n_prompt"], Rules(bias=params.logit_bias))
        (result,) = process_by_stages(array_of(case["logits"])[None], wanting([row]))
        assert result.candidates.token_ids.tolist() == case["kept"], case


def test_what_is_written_for_transformers_is_a_config_that_it_takes() -> None:
    params = DecodingParams(
        order="transformers", temperature=0.7, top_p=0.9, min_p=0.1, top_h=0.5, no_repeat_ngram_size=2,
        logit_bias={3: 1.5}, stop_token_ids=[2], banned_token_ids=[5], min_tokens=2, stop="x",
        include_stop=True,
    )  # fmt: skip
    theirs, lost = params.to_transformers()
    assert lost == ()
    config = GenerationConfig(**theirs)
    assert DecodingParams.from_transformers(config)[0] == params
    assert DecodingParams.from_transformers(GenerationConfig())[0].is_greedy
