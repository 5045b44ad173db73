"""The toy's logits of a guided or contrasted request, worked out from whole texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from toy_engine import LETTERS, ToyAmateur

from unspool.engine.rules import rules_of
from unspool.logits.contrast import contrast
from unspool.logits.guidance import guide
from unspool.logits.masks import MASKS
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.types import F32, Row


def toy_row(prompt: Sequence[int], output: Sequence[int], params: DecodingParams, branch: int = 0) -> Row:
    text, rules = [*prompt, *output], rules_of(params, LETTERS)
    return Row(params, params.seed or 0, branch, text, len(prompt), rules, wants_candidates=True)


def combined_after(prompt: Sequence[int], output: Sequence[int], params: DecodingParams) -> F32:
    """Logits (V,) of the next token, as the stages get them."""
    z = ToyRunner().logits_of([*prompt, *output])
    if params.guidance_scale != 1:
        negative = prompt[-1:] if params.negative_prompt is None else params.negative_prompt
        u = ToyRunner().logits_of([*negative, *output])
        z = guide(z.astype(float), u.astype(float), params.guidance_scale).astype(np.float32)
    if params.contrast_beta:
        a = ToyAmateur().logits_of([*prompt, *output])
        allowed = z[None]
        for mask in MASKS:
            if mask.is_active(params):
                allowed = mask.apply(allowed, [toy_row(prompt, output, params)])
        alpha, beta = params.contrast_alpha, params.contrast_beta
        z = contrast(z.astype(float), a.astype(float), alpha, beta, allowed[0]).astype(np.float32)
    return z
