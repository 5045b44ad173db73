"""Guided answers of tiny models are those of transformers (tests/oracle/record_transformers_guidance.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from executing import reference_runner
from guided_cases import MODELS, answered
from hf_models import HF_CASES, case_weights, write_hf_folder
from preset_cases import read

from unspool.models.weights import open_weights

LOGITS = Path(__file__).parent.parent.parent / "data" / "logits"


@pytest.mark.parametrize("name", MODELS)
def test_tokens_and_logprobs_are_the_recorded_ones(name, tmp_path):
    (model,) = [case for case in HF_CASES if case.name == name]
    record = json.loads((LOGITS / f"{name}.json").read_text())
    shapes = {weight: tuple(shape) for weight, shape in record["shapes"].items()}
    weights = case_weights(shapes, model.model_type)
    cases = [case for case in read("guidance_of_transformers.json") if case["model"] == name]
    assert len(cases) == 8
    with open_weights(write_hf_folder(tmp_path, record["config"], weights)) as source:
        runner = reference_runner(source, 1024, row_exact=False)
        for case in cases:
            ids, logprobs = answered(runner, case)
            assert ids == case["token_ids"], case
            assert logprobs == pytest.approx(case["logprobs"], abs=1e-4), case
