"""Who reads beside the branches of a request, and what becomes of their logits by it.

This is the one seam for a second opinion. A companion is a text of its own (another prompt) or another
reader of the same text (a second model). Each branch has a strand for each companion: it holds pages, runs in
the same steps, gets the tokens that its branch gets, and forks, is put back and ends with it. No token is
chosen for it: its logits and the branch's go through a rule (logits/combination.py), and the pipeline sees
what comes out.
"""

from __future__ import annotations

from unspool.engine.detokenize import Vocabulary
from unspool.engine.rules import check_range
from unspool.errors import BadRequest, named
from unspool.light_dataclass import dataclass
from unspool.logits.combination import Combination
from unspool.logits.contrast import Contrast
from unspool.logits.guidance import Guidance
from unspool.param_conflicts import is_on
from unspool.types import Request

OWN_MODEL = 0  # the models of an engine by number
AMATEUR = 1


@dataclass(frozen=True, slots=True)
class Companion:
    """Of a request; its branches have a strand each for it."""

    prompt_ids: tuple[int, ...]
    rule: Combination
    model: int = OWN_MODEL  # which of the engine's models reads it


def companions_of(
    request: Request, vocabulary: Vocabulary, n_vocab: int, n_models: int
) -> tuple[Companion, ...]:
    """Guidance first, and then the contrast with what guidance made. Raises BadRequest for what cannot be."""
    params, companions = request.params, []
    if is_on("guidance", params):
        prompt_ids = _negative_prompt(request, vocabulary, n_vocab)
        companions.append(Companion(prompt_ids, Guidance(params.guidance_scale)))
    if is_on("contrast", params):
        if n_models == 1:
            raise BadRequest(
                f"contrast_beta={params.contrast_beta} needs a second model to contrast with; load one as "
                f"{named('amateur')}, or leave contrast_beta at 0",
                code="no_amateur",
            )
        rule = Contrast(params.contrast_alpha, params.contrast_beta)
        companions.append(Companion(request.prompt_ids, rule, AMATEUR))
    return tuple(companions)


def _negative_prompt(request: Request, vocabulary: Vocabulary, n_vocab: int) -> tuple[int, ...]:
    """As given, text as `generate` takes it; else the last token of the prompt, which is no prompt at all."""
    given = request.params.negative_prompt
    if given is None:
        return request.prompt_ids[-1:]
    ids = tuple(vocabulary.encode(given)) if isinstance(given, str) else tuple(given)
    if not ids:
        raise BadRequest(
            "negative_prompt has no tokens in this vocabulary; leave it out for guidance away from no prompt",
            code="bad_negative_prompt",
        )
    check_range("negative_prompt", ids, n_vocab)
    return ids
