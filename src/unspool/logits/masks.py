"""The hard masks in order of priority, and what it means when they leave nothing.

A grammar stands above what the user allows and bans, and that above min_tokens. Only min_tokens yields, by
itself (min_tokens.py); when the others leave no token, none is chosen: the request ends with MaskConflict.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unspool.errors import MaskConflict
from unspool.logits.bad_words import BadWords
from unspool.logits.min_tokens import MinTokens
from unspool.logits.no_repeat_ngram import NoRepeatNgram
from unspool.logits.stage import Logits, Stage
from unspool.logits.token_masks import AllowedTokens, BannedTokens
from unspool.params import DecodingParams
from unspool.types import Row

# What may not be said is settled before what is likely. A grammar's mask will stand before these.
MASKS: Final[tuple[Stage, ...]] = (AllowedTokens(), BannedTokens(), BadWords(), NoRepeatNgram(), MinTokens())

_PARAMETERS: Final = {
    "allowed_tokens": "allowed_token_ids",
    "bad_words": "bad_words",
    "no_repeat_ngram": "no_repeat_ngram_size",
    "min_tokens": "min_tokens",
}


def apply_mask(mask: Stage, z: Logits, row: Row) -> Logits:
    """The mask's logits (V,) of logits (V,). Raises MaskConflict when it takes the last candidate."""
    after: Logits = mask.apply(z[None], [row])[0]
    if (z > -np.inf).any() and not (after > -np.inf).any():
        raise conflict(row, z.size)
    return after


def conflict(row: Row, n_vocab: int) -> MaskConflict:
    """The error for a row whose masks leave nothing of n_vocab tokens. Names those that are to blame."""
    masks = [mask for mask in MASKS if mask.is_active(row.params)]
    guilty = [mask for mask in masks if _would_leave_some([m for m in masks if m is not mask], row, n_vocab)]
    names = [name for mask in guilty or masks for name in _parameters(mask, row.params)]
    together = " and ".join(dict.fromkeys(names))
    return MaskConflict(
        f"no token is left at position {row.position}: {together} mask every one of them; loosen one"
    )


def _would_leave_some(masks: list[Stage], row: Row, n_vocab: int) -> bool:
    z: Logits = np.zeros((1, n_vocab))
    for mask in masks:
        z = mask.apply(z, [row])
    return bool((z > -np.inf).any())


def _parameters(mask: Stage, params: DecodingParams) -> list[str]:
    if isinstance(mask, BannedTokens):
        by_bias = any(bias is False for _, bias in params.biases)
        return ["banned_token_ids"] * bool(params.banned_token_ids) + ["logit_bias"] * by_bias
    return [_PARAMETERS[mask.name]]
