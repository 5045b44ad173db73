"""What transformers reads of a GGUF file that was written from a folder.

Of the keys that GGUF has, it reads few: no windows, no rope scaling, no size of heads for some families.
These cases need none of them.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hf_models import HF_CASES, RECORDED, case_tokens, write_case

from unspool.models.quantize_file import quantize_file

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

PLAIN = [case for case in HF_CASES if case.name in ("llama", "mistral-narrow-heads", "qwen2")]


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_transformers_computes_the_folder_s_logits_from_the_file(case, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    written = quantize_file(write_case(tmp_path / "model", case), tmp_path / "out.gguf", "f32").path
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=written.name, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([case_tokens(case)])).logits[0].numpy()
    record = json.loads((RECORDED / f"{case.name}.json").read_text())
    for position, expected in record["logits"].items():
        np.testing.assert_allclose(logits[int(position)], expected, atol=1e-4)
