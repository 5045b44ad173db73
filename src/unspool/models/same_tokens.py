"""Whether an id means the same token to two models: without that an amateur's opinion is of another text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.errors import BadRequest

if TYPE_CHECKING:
    from unspool.models.tokenizer import Tokenizer


def check_same_tokens(own: Tokenizer, its: Tokenizer, own_name: str, its_name: str) -> None:
    """BadRequest for an amateur to which an id means another token than to the model. It may have more tokens
    behind the model's."""
    (bytes_own, starts_own), (bytes_its, starts_its) = own.all_token_bytes(), its.all_token_bytes()
    n = own.vocab_size
    end = int(starts_own[-1])
    if its.vocab_size >= n and bytes_its[:end] == bytes_own and (starts_its[: n + 1] == starts_own).all():
        silent = np.flatnonzero(np.diff(starts_own) == 0).tolist()  # told apart by their names
        if all(own.token_text(i) == its.token_text(i) for i in silent):
            return
    raise other_tokens(own_name, its_name)


def other_tokens(own_name: str, its_name: str) -> BadRequest:
    return BadRequest(
        f"the amateur {its_name} has other tokens than {own_name}, so what they say of a token cannot be "
        "compared; give a smaller model of the same family",
        code="bad_amateur",
    )
