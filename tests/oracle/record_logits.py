"""Records the logits of transformers for every case of hf_models.py under tests/data/logits.

    PYTHONPATH=src:tests/support python tests/oracle/record_logits.py

Each file holds config.json as transformers wrote it, the shapes of the parameters (their values
follow from the case), and the logits of a few positions.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hf_models import HF_CASES, HfCase, case_tokens
from transformers_models import transformers_logits, transformers_model

FOLDER = Path(__file__).parent.parent / "data" / "logits"
POSITIONS = (0, 1, 13, 39)  # the first, the first with a past, inside and past the windows


def record(case: HfCase) -> None:
    tokens = case_tokens(case)
    with tempfile.TemporaryDirectory() as folder:
        model = transformers_model(case, Path(folder))
        config = json.loads((Path(folder) / "config.json").read_text())
    logits = transformers_logits(model, tokens)
    recorded = {
        "config": config,
        "shapes": {name: list(parameter.shape) for name, parameter in model.named_parameters()},
        "logits": {position: [round(float(x), 6) for x in logits[position]] for position in POSITIONS},
    }
    (FOLDER / f"{case.name}.json").write_text(json.dumps(recorded) + "\n")


if __name__ == "__main__":
    for each in HF_CASES:
        record(each)
