"""The cases of hf_models.py as transformers computes them; needs the oracle extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hf_models import HfCase, case_weights


def transformers_model(case: HfCase, folder: Path) -> Any:
    """The case's model with its weights in float32, saved to `folder` and ready to run."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(case.model_type, **case.config)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.to(torch.float32).eval()
    parameters = dict(model.named_parameters())  # a tied output is listed once
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    weights = case_weights(shapes, case.model_type)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.from_numpy(weights[name]))
    model.save_pretrained(folder)
    return model


def transformers_logits(model: Any, tokens: Sequence[int]) -> np.ndarray:
    """(T, V) float32, the whole prompt at once."""
    import torch

    with torch.no_grad():
        logits: np.ndarray = model(torch.tensor([list(tokens)])).logits[0].float().numpy()
    return logits
