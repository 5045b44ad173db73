"""Logits of tiny random models against transformers in float32, and of SmolLM2 from its GGUF file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from executing import logits_by_token, logits_whole, reference_runner
from hf_models import HF_CASES, case_tokens, write_hf_folder
from transformers_models import transformers_logits, transformers_model

from unspool.models.weights import open_weights

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

TOLERANCE = 1e-4


@pytest.mark.parametrize("case", HF_CASES, ids=lambda case: case.name)
def test_logits_of_a_tiny_model_equal_those_of_transformers(case, tmp_path):
    model, tokens = transformers_model(case, tmp_path), case_tokens(case)
    expected = transformers_logits(model, tokens)
    assert expected.std() > 0.3, "logits this flat would hide a mistake"
    with open_weights(tmp_path) as source:
        runner = reference_runner(source, len(tokens))
        for logits in (logits_whole(runner, tokens), logits_by_token(runner, tokens)):
            assert np.abs(logits - expected).max() < TOLERANCE


def test_the_text_model_inside_a_multimodal_gemma3_folder_is_found(tmp_path):
    case = next(case for case in HF_CASES if case.name == "gemma3")
    model, tokens = transformers_model(case, tmp_path / "text"), case_tokens(case)
    config = json.loads((tmp_path / "text" / "config.json").read_text())
    wrapped = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": config,
        "vision_config": {"hidden_size": 8},
    }
    names = {
        "language_model." + name: parameter.numpy(force=True) for name, parameter in model.named_parameters()
    }
    with open_weights(write_hf_folder(tmp_path / "both", wrapped, names)) as source:
        logits = logits_whole(reference_runner(source, len(tokens)), tokens)
    assert np.abs(logits - transformers_logits(model, tokens)).max() < TOLERANCE


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_logits_of_a_gguf_file_equal_those_of_transformers_loading_it(name, model_path):
    """Real weights, both sides decoding the same blocks to float32 and summing in other orders. Largest
    difference with transformers 5.24: SmolLM2 1.9e-4 of logits that spread by 4.4, Gemma 3 4.1e-4 of 29.6
    (`make test-oracle ARGS="-s -k gguf"` prints them)."""
    import torch
    from transformers import AutoModelForCausalLM

    path = model_path(name)
    tokens = np.random.default_rng(0).integers(1000, 40_000, 48).tolist()
    with open_weights(path) as source:
        logits = logits_whole(reference_runner(source, len(tokens), row_exact=False), tokens)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )
    difference = np.abs(logits - transformers_logits(model.eval(), tokens)).max()
    print(f"{name}: max |difference of logits| {difference:.2e}, logits' spread {logits.std():.2f}")
    assert difference < 2e-3
