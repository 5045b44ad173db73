"""The recorded values of transformers' processors are what the installed version gives."""

from __future__ import annotations

import numpy as np
import pytest
from preset_cases import outcome, read
from transformers_processors import processed

pytestmark = pytest.mark.oracle


def test_the_recorded_rows_come_out_the_same() -> None:
    cases = read("processors_of_transformers.json")
    assert len(cases) > 200
    for case in cases:
        result = outcome(processed(case))
        assert result["kept"] == case["kept"], case
        np.testing.assert_allclose(result["probs"], case["probs"], rtol=0, atol=1e-5)
