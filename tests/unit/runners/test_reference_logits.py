"""The reference runner against logits that transformers computed (tests/oracle/record_logits.py)."""

from __future__ import annotations

import json

import numpy as np
import pytest
from executing import logits_by_token, logits_whole, reference_runner
from hf_models import HF_CASES, RECORDED, case_tokens, case_weights, write_hf_folder

from unspool.models.weights import open_weights

TOLERANCE = 1e-4


@pytest.fixture(params=HF_CASES, ids=lambda case: case.name)
def case_and_record(request):
    return request.param, json.loads((RECORDED / f"{request.param.name}.json").read_text())


@pytest.fixture
def source(case_and_record, tmp_path):
    case, record = case_and_record
    shapes = {name: tuple(shape) for name, shape in record["shapes"].items()}
    weights = case_weights(shapes, case.model_type)
    with open_weights(write_hf_folder(tmp_path, record["config"], weights)) as source:
        yield source


def largest_difference(record, logits) -> float:
    return max(
        np.abs(logits[int(position)] - expected).max() for position, expected in record["logits"].items()
    )


@pytest.mark.parametrize("row_exact", [True, False])
def test_a_prompt_in_one_chunk_has_the_recorded_logits(case_and_record, source, row_exact):
    case, record = case_and_record
    tokens = case_tokens(case)
    runner = reference_runner(source, len(tokens), row_exact=row_exact)
    assert largest_difference(record, logits_whole(runner, tokens)) < TOLERANCE


def test_a_prompt_token_by_token_has_the_recorded_logits(case_and_record, source):
    case, record = case_and_record
    tokens = case_tokens(case)
    runner = reference_runner(source, len(tokens))
    assert largest_difference(record, logits_by_token(runner, tokens)) < TOLERANCE


def test_float64_arithmetic_agrees_even_more_closely_than_needed(case_and_record, source):
    case, record = case_and_record
    tokens = case_tokens(case)
    runner = reference_runner(source, len(tokens), dtype=np.float64, kv_dtype=np.float64)
    assert largest_difference(record, logits_whole(runner, tokens)) < TOLERANCE / 2
