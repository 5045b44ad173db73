"""From parameters and a vocabulary to the rules of a request."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.conventions import conventions_of
from unspool.engine.detokenize import Vocabulary
from unspool.engine.spelling import spell
from unspool.engine.token_table import TokenTable
from unspool.errors import BadRequest, brief
from unspool.param_conflicts import is_on
from unspool.params import DecodingParams
from unspool.rules import Rules


def rules_of(
    params: DecodingParams,
    vocabulary: Vocabulary,
    *,
    n_vocab: int | None = None,
    template_positions: frozenset[int] = frozenset(),
) -> Rules:
    """Raises BadRequest for a text or an id that this vocabulary cannot mean.

    `n_vocab` is how many tokens have logits, all of the vocabulary when left out.
    """
    check_ids(params, vocabulary.vocab_size if n_vocab is None else n_vocab)
    end_ids = frozenset(params.stop_token_ids)
    if not params.ignore_eos:
        end_ids |= vocabulary.eos_ids
    biases = _biases_by_id(params, vocabulary)
    breaker_ids, breaker_runs = _breakers(params, vocabulary)
    return Rules(
        end_ids=end_ids,
        bias=tuple(sorted((i, bias) for i, bias in biases.items() if bias is not False)),
        banned_ids=frozenset(params.banned_token_ids) | {i for i, bias in biases.items() if bias is False},
        bad_words=_bad_words(params, vocabulary),
        dry_breaker_ids=breaker_ids,
        dry_breaker_runs=breaker_runs,
        newline_ids=_newlines(params, vocabulary),
        template_positions=template_positions,
    )


def check_ids(params: DecodingParams, n_vocab: int) -> None:
    """Raise BadRequest for a token id that the model does not have."""
    named: dict[str, Sequence[int]] = {
        "stop_token_ids": params.stop_token_ids,
        "banned_token_ids": params.banned_token_ids,
        "allowed_token_ids": params.allowed_token_ids or (),
        "penalty_exclude_ids": params.penalty_exclude_ids,
        "logit_bias": [token for token, _ in params.biases if isinstance(token, int)],
    }
    for name, ids in named.items():
        check_range(name, ids, n_vocab)


def check_range(name: str, ids: Sequence[int], n_vocab: int) -> None:
    """Raise BadRequest for the first of these ids that is out of range."""
    if ids and not (min(ids) >= 0 and max(ids) < n_vocab):
        wrong = next(token_id for token_id in ids if not 0 <= token_id < n_vocab)
        raise BadRequest(
            f"{name} holds the token id {wrong}; this model's ids are [0, {n_vocab})", code="bad_token_id"
        )


def _biases_by_id(params: DecodingParams, vocabulary: Vocabulary) -> dict[int, float | bool]:
    biases: dict[int, float | bool] = {}
    named: dict[int, int | str] = {}
    for token, bias in params.biases:
        token_id = token if isinstance(token, int) else _only_token(token, vocabulary)
        if token_id in biases:
            raise BadRequest(
                f"logit_bias names token {token_id} twice, as {brief(named[token_id])} and as "
                f"{brief(token)}; keep one of them",
                code="bad_logit_bias",
            )
        biases[token_id], named[token_id] = bias, token
    return biases


def _only_token(text: str, vocabulary: Vocabulary) -> int:
    """The one token that writes exactly this text, a space before it being another text."""
    ids = spell(text, vocabulary)
    if ids is not None and len(ids) == 1:
        return ids[0]
    alike = TokenTable.of(vocabulary).equal(text.encode())
    if alike:
        return alike[0]
    if ids is None:
        raise BadRequest(
            f"logit_bias names {brief(text)}, which this model's tokens cannot write; leave it out",
            code="bad_logit_bias",
        )
    raise BadRequest(
        f"logit_bias names {brief(text)}, which is {len(ids)} tokens in this vocabulary: {list(ids)}; "
        "bias them by their ids, or ban the text with bad_words",
        code="bad_logit_bias",
    )


def _bad_words(params: DecodingParams, vocabulary: Vocabulary) -> tuple[tuple[int, ...], ...]:
    """Every word with and without a space before it, each as the vocabulary writes it, and as one token
    where there is one."""
    known: dict[tuple[int, ...], None] = {}
    for given in params.bad_words:
        word = given.lstrip(" ")
        found: list[tuple[int, ...]] = []
        for text in (word, f" {word}") if word else (given,):
            found += spellings(text, vocabulary)
        if not found:
            raise BadRequest(
                f"bad_words holds {brief(given)}, which this model's tokens cannot write; leave it out",
                code="bad_bad_words",
            )
        known.update(dict.fromkeys(found))
    return tuple(known)


def spellings(text: str, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """A text as the vocabulary writes it, and as one token where there is one."""
    ids = spell(text, vocabulary)
    found = [] if ids is None else [ids]
    return found + [(i,) for i in TokenTable.of(vocabulary).equal(text.encode()) if (i,) != ids]


def _newlines(params: DecodingParams, vocabulary: Vocabulary) -> frozenset[int]:
    spares = is_on("xtc", params) and conventions_of(params).xtc_spares_ends
    return TokenTable.of(vocabulary).holding(b"\n") if spares else frozenset()


def _breakers(
    params: DecodingParams, vocabulary: Vocabulary
) -> tuple[frozenset[int], tuple[tuple[int, ...], ...]]:
    """Tokens that hold a breaker, and runs of tokens that do together: every token that ends in a beginning
    of it, followed by the rest as the vocabulary writes that."""
    if not is_on("dry", params):
        return frozenset(), ()
    table = TokenTable.of(vocabulary)
    ids: set[int] = set()
    runs: dict[tuple[int, ...], None] = {}
    for breaker in params.dry_breakers:
        ids |= table.holding(breaker.encode())
        for n in range(1, min(len(breaker), table.longest + 1)):
            heads = table.ending(breaker[:n].encode())
            rest = spell(breaker[n:], vocabulary) if heads else None
            if rest is not None:
                runs.update(((token_id, *rest), None) for token_id in heads)
    return frozenset(ids), tuple(runs)
