"""From parameters and a vocabulary to the rules of a request."""

from __future__ import annotations

from unspool.engine.detokenize import Vocabulary
from unspool.params import DecodingParams
from unspool.rules import Rules


def rules_of(params: DecodingParams, vocabulary: Vocabulary) -> Rules:
    """Raises BadRequest for a text or an id that this vocabulary cannot mean."""
    end_ids = frozenset(params.stop_token_ids)
    if not params.ignore_eos:
        end_ids |= vocabulary.eos_ids
    return Rules(end_ids=end_ids)
