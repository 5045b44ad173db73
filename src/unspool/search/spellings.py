"""What a phrase is in token ids, and which of its spellings an answer can hold."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.errors import BadRequest, brief
from unspool.search.base import Asked
from unspool.search.phrases import Spelling


def spelled_in(alternatives: Sequence[str | Spelling], asked: Asked) -> tuple[Spelling, ...]:
    """The spellings of a phrase that the request leaves possible. Raises BadRequest when there is none."""
    spellings: dict[Spelling, None] = {}
    for each in alternatives:
        if not isinstance(each, str):
            found: Sequence[Spelling] = [each]
        elif each.startswith(" "):
            found = asked.spellings(each)
        else:
            found = [*asked.spellings(each), *asked.spellings(f" {each}")]
        spellings.update(dict.fromkeys(found))
    problem = "this model's tokens cannot write it"
    possible = []
    for spelling in spellings:
        reason = _problem(spelling, asked)
        if reason is None:
            possible.append(spelling)
        problem = reason or problem
    if not possible:
        shown = brief(alternatives[0] if len(alternatives) == 1 else list(alternatives))
        raise BadRequest(
            f"no answer can contain the phrase {shown}: {problem}; change one of the two", code="bad_phrases"
        )
    return tuple(possible)


def _problem(spelling: Spelling, asked: Asked) -> str | None:
    """Why the request rules a spelling out; None when it does not."""
    params, rules = asked.params, asked.rules
    for token_id in spelling:
        if not 0 <= token_id < asked.n_vocab:
            return f"it has the token id {token_id}, and this model's ids are [0, {asked.n_vocab})"
        if token_id in rules.end_ids:
            return f"its token {token_id} ends the text"
        if token_id in rules.banned_ids:
            return f"its token {token_id} is banned"
        if params.allowed_token_ids is not None and token_id not in params.allowed_token_ids:
            return f"its token {token_id} is not in allowed_token_ids"
    for word in rules.bad_words:
        if any(spelling[i : i + len(word)] == word for i in range(len(spelling))):
            return "it has one of bad_words"
    text = b"".join(map(asked.token_bytes, spelling))
    for stop in params.stop if not params.min_tokens else ():
        at = text.find(stop.encode())
        if at >= 0 and not (params.include_stop and at + len(stop.encode()) == len(text)):
            return f"the stop string {brief(stop)} ends the text in it"
    return None
