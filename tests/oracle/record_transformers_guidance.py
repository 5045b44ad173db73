"""Records guided answers of transformers on tiny random models.

    PYTHONPATH=src:tests/support python tests/oracle/record_transformers_guidance.py     # oracle environment

Writes tests/data/guidance_of_transformers.json; test_guidance_of_transformers.py asks the installed version
again.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import transformers
from guided_cases import MODELS, Case, random_case
from hf_models import HF_CASES
from preset_cases import write
from transformers_guided import generated
from transformers_models import transformers_model

N_CASES = 24


def main() -> None:
    cases: list[Case] = []
    with TemporaryDirectory() as folder:
        models = {
            case.name: transformers_model(case, Path(folder, case.name))
            for case in HF_CASES
            if case.name in MODELS
        }
        for seed in range(1000, 1000 + N_CASES):
            case = random_case(seed)
            ids, logprobs = generated(models[case["model"]], case)
            cases.append({**case, "token_ids": ids, "logprobs": [round(x, 6) for x in logprobs]})
    write("guidance_of_transformers.json", f"transformers {transformers.__version__}", cases)


if __name__ == "__main__":
    main()
