"""Guidance against transformers' UnbatchedClassifierFreeGuidanceLogitsProcessor: same tokens, same scores."""

from __future__ import annotations

import pytest
from executing import reference_runner
from guided_cases import MODELS, answered, random_case
from hf_models import HF_CASES
from preset_cases import read

from unspool.models.weights import open_weights

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

N_CASES = 60


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """By name: transformers' model and our runner."""
    from transformers_models import transformers_model

    pairs = {}
    for case in [case for case in HF_CASES if case.name in MODELS]:
        folder = tmp_path_factory.mktemp(case.name)
        model = transformers_model(case, folder)
        pairs[case.name] = model, reference_runner(open_weights(folder), 4096, row_exact=False)
    return pairs


def test_tokens_and_logprobs_of_random_cases_are_those_of_transformers(models):
    from transformers_guided import generated

    for seed in range(N_CASES):
        case = random_case(seed)
        model, runner = models[case["model"]]
        (expected, their_logprobs), (found, logprobs) = generated(model, case), answered(runner, case)
        assert found == expected, (seed, case)
        assert logprobs == pytest.approx(their_logprobs, abs=1e-4), (seed, case)


def test_the_recorded_answers_are_what_the_installed_version_gives(models):
    from transformers_guided import generated

    cases = read("guidance_of_transformers.json")
    assert len(cases) > 20
    for case in cases:
        ids, logprobs = generated(models[case["model"]][0], case)
        assert ids == case["token_ids"]
        assert logprobs == pytest.approx(case["logprobs"], abs=1e-4)
