"""What a request may come to need, and the refusal of one that can never run, before it is taken in."""

from __future__ import annotations

from unspool.engine.rules import check_range
from unspool.errors import BadRequest, ContextOverflow, in_python, named
from unspool.kv.layout import pages_for
from unspool.params import DecodingParams
from unspool.runners.base import Runner
from unspool.search.base import Search
from unspool.search.sample import Sample
from unspool.types import Request


def check_prompt(request: Request, n_vocab: int) -> None:
    """Raise BadRequest for a prompt without tokens, or with one that the model does not have."""
    if not request.prompt_ids:
        raise BadRequest("the prompt has no tokens; give at least one", code="empty_prompt")
    check_range("prompt", request.prompt_ids, n_vocab)


def search_of(request: Request) -> Search:
    """The search that was asked for, or sampling of as many answers as were asked for."""
    search: Search | None = request.search
    if search is None:
        return Sample(request.n, request.first_branch)
    if request.first_branch != 0:
        raise BadRequest(
            f"{named('branch', request.first_branch)} is for answers that are sampled, not for "
            f"{type(search).__name__}; leave it out",
            code="bad_branch",
        )
    if request.n not in (1, search.n_answers):
        raise BadRequest(
            f"{named('n', request.n)} and {type(search).__name__} both say how many answers there are; "
            f"leave {named('n')} out",
            code="bad_n",
        )
    search.check(request.params)
    return search


def check_n(n: int, search: Search, n_companions: int, n_rows: int) -> None:
    """Raise BadRequest for more branches, each with its companions, than a step has rows."""
    if type(n) is not int or n < 1:
        raise BadRequest(f"{named('n')} must be a whole number, at least 1, got {n!r}", code="bad_n")
    if search.max_branches * (1 + n_companions) > n_rows:
        most = n_rows // (1 + n_companions)
        is_sampled = isinstance(search, Sample)
        way_out = f"give {named('n')} of at most {most}" if is_sampled else f"let it have {most} at most"
        each = "a row" if not n_companions else f"{1 + n_companions} rows, guided or contrasted as it is,"
        raise BadRequest(
            f"{named(type(search).__name__)} may have {search.max_branches} branches at once, each needs "
            f"{each} of the step, and a step has {n_rows}; {way_out}{in_python(', or give more n_rows')}",
            code="bad_n",
        )


def tells_on_the_way(params: DecodingParams, search: Search) -> bool:
    """Whether an answer would be told otherwise if all of it came with its end: a prompt's
    log-probabilities are told first of all, and a branch that is born late begins where another was told to.
    """
    return params.prompt_logprobs is not None or (search.forks_later and not search.is_ranked)


def room_after(what: str, n_tokens: int, n_context: int, runner: Runner) -> int:
    """Tokens that an answer may have after so many; at least one."""
    if n_tokens >= n_context:
        raise ContextOverflow(
            f"{what} has {n_tokens} tokens and the context {n_context}, of which at least "
            f"one is for the answer; {_more_room(n_context, runner)}"
        )
    return n_context - n_tokens


def _more_room(n_context: int, runner: Runner) -> str:
    """What makes a longer prompt fit: whatever keeps the context as short as it is."""
    if n_context >= runner.context_length:
        return "shorten the prompt, which the model has no more room for"
    if pages_for(n_context, runner.page_size) < runner.n_pages:
        return f"shorten the prompt, or raise {named('context_length')}"
    return (
        f"shorten the prompt, or give the KV cache more room ({named('kv_tokens')}), which is what keeps the "
        f"context so short, and raise {named('context_length')} where that was given"
    )


def pages_of(n_prompt: int, n_new_max: int, n_branches: int, page_size: int) -> tuple[int, int]:
    """Pages of a prompt and its answers to their ends, when the prompt is shared and when it is not."""
    n_shared = 0 if n_branches == 1 else n_prompt // page_size
    # The last token chosen is never fed, so it needs no place in the cache.
    n_each = pages_for(n_prompt + n_new_max - 1, page_size)
    return n_shared + n_branches * (n_each - n_shared), n_branches * n_each


def check_amateur(runner: Runner, amateur: Runner, n_vocab: int) -> None:
    """Raise BadRequest for a second model that cannot read the same texts on the same pages."""
    own, its = (runner.n_pages, runner.page_size), (amateur.n_pages, amateur.page_size)
    if its != own:
        raise BadRequest(
            f"the amateur has {its[0]} pages of {its[1]} tokens and the model {own[0]} of {own[1]}; give "
            "both runners the same",
            code="bad_amateur",
        )
    if amateur.vocab_size < n_vocab:
        raise BadRequest(
            f"the amateur has {amateur.vocab_size} tokens and the model {n_vocab}; both must have "
            "the same tokens, as models of one family do",
            code="bad_amateur",
        )


def check_context(asked: int, own: int) -> None:
    """Raise BadRequest for a context that the model does not have."""
    if not 1 <= asked <= own:
        raise BadRequest(
            f"{named('context_length')} must be in [1, {own}], the model's own, got {asked}; leave it out "
            "for the whole",
            code="bad_context_length",
        )
