"""Best-of-n: several answers, and a verifier that says which is best. What is wanted, as data;
`unspool.best` runs it.

The answers are samples, each judged as soon as it has ended, or those of a search that ranks its answers,
which end together: then the verifier ranks anew what the search has found.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, cast

from unspool.errors import BadRequest, ParameterConflict, brief, named
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.base import Search
from unspool.search.sample import Sample
from unspool.search.verifiers.base import Verifier


@dataclass(frozen=True, slots=True)
class BestOf:
    """n answers of a search, judged by a verifier.

    BestOf(Sample(), n=16, verifier=PythonTests(tests))
    BestOf(Beam(width=8), n=4, verifier=PythonTests(tests))

    search          Sample(), or a search such as Beam: how they are looked for; how many there are says n
    n               answers
    budget_tokens   of all answers together; of samples, since those of other searches end together
    early_stop      stop once the verifier has decided: the rest is not written, or where it was, not judged
    """

    search: Search = field(default_factory=Sample)
    n: int = 16
    verifier: Verifier = field(kw_only=True)
    budget_tokens: int | None = field(default=None, kw_only=True)
    early_stop: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("budget_tokens", 1)):
            value = getattr(self, name)
            if name == "budget_tokens" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadRequest(
                    f"{name} must be a whole number, at least {least}, got {brief(value)}", code=f"bad_{name}"
                )
        if not callable(self.verifier) or not hasattr(self.verifier, "rank"):
            raise BadRequest(
                f"verifier must be a verifier, got {brief(self.verifier)}; wrap a function in Function, or "
                "make one by name with verifiers.registry.make",
                code="bad_verifier",
            )
        _ = self.searched  # refuses what cannot have n answers
        if self.search.is_ranked and self.budget_tokens is not None:
            raise BadRequest(
                f"{named('budget_tokens', self.budget_tokens)} has no meaning with "
                f"{named(type(self.search).__name__)}, whose answers end together; set max_tokens, or sample",
                code="bad_budget_tokens",
            )

    @property
    def searched(self) -> Search | None:
        """The search that a request names, with n answers; None for samples."""
        search = self.search
        if isinstance(search, type) or not isinstance(getattr(search, "is_ranked", None), bool):
            raise BadRequest(
                f"search must be Sample() or a search such as Beam(width=8), got {brief(search)}",
                code="bad_search",
            )
        if isinstance(search, Sample) and search.n == 1:
            return None
        if search.n_answers == self.n and search.is_ranked:
            return search
        if search.n_answers == 1 and hasattr(search, "n_best"):
            found: Search = replace(cast(Any, search), n_best=self.n)
            return found
        raise BadRequest(
            f"{type(search).__name__} has {search.n_answers} answers and BestOf n={self.n}; "
            "n is given to BestOf",
            code="bad_n",
        )

    def params(self, asked: DecodingParams) -> DecodingParams:
        """The parameters to decode with. Raises ParameterConflict where all answers would be the same."""
        if asked.is_greedy and self.n > 1 and not self.search.is_ranked:
            raise ParameterConflict(
                f"temperature 0 makes {self.n} equal answers",
                ("temperature", "n"),
                way_out=f"raise temperature, or set {named('n', 1)}",
            )
        if self.verifier.needs_logprobs and asked.logprobs is None:
            return replace(asked, logprobs=0)
        return asked
