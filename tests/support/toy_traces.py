"""A trace of one row whose numbers can be worked out by hand."""

from __future__ import annotations

import numpy as np

from unspool.logits.pipeline import process
from unspool.logits.tracing import trace_of
from unspool.params import DecodingParams
from unspool.trace import TokenTrace
from unspool.types import Row

TEXTS = (" the", "\n", "世", "$x$", "a very long token indeed, longer than its column")


def toy_trace(probs=(0.4, 0.3, 0.2, 0.06, 0.04), texts=TEXTS, token_id=0, **params) -> TokenTrace:
    """Temperature 0.5, then top-k 3, then top-p 0.8, unless other parameters are given; token 0 is chosen."""
    params = DecodingParams(**(params or {"temperature": 0.5, "top_k": 3, "top_p": 0.8}))
    z = np.log(np.array(probs, dtype="f8")).astype("f4")
    row = Row(params, 1, 0, (0, 1), 2, wants_candidates=True)
    [processed] = process(z[None], [row])
    return trace_of(z, row, processed.candidates, token_id, lambda i: (texts[i], b""))
