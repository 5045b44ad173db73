"""Best-of-n: several answers, and a verifier that says which is best. What is wanted, as data;
`unspool.best` runs it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from unspool.errors import BadRequest, ParameterConflict, brief
from unspool.params import DecodingParams
from unspool.search.sample import Sample
from unspool.search.verifiers.base import Verifier


@dataclass(frozen=True, slots=True)
class BestOf:
    """n answers of a search, each judged as soon as it has ended.

    BestOf(Sample(), n=16, verifier=PythonTests(tests))
    """

    search: Sample = field(default_factory=Sample)
    n: int = 16
    verifier: Verifier = field(kw_only=True)
    budget_tokens: int | None = field(default=None, kw_only=True)  # of all answers together
    early_stop: bool = field(default=True, kw_only=True)  # stop the rest once the verifier has decided

    def __post_init__(self) -> None:
        if not isinstance(self.search, Sample) or self.search.n != 1:
            raise BadRequest(
                f"search must be Sample() with one answer, got {brief(self.search)}; n is given to BestOf",
                code="bad_search",
            )
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

    def params(self, asked: DecodingParams) -> DecodingParams:
        """The parameters to decode with. Raises ParameterConflict where all answers would be the same."""
        if asked.is_greedy and self.n > 1:
            raise ParameterConflict(
                f"temperature 0 makes {self.n} equal answers; raise temperature, or set n=1",
                ("temperature", "n"),
            )
        if self.verifier.needs_logprobs and asked.logprobs is None:
            return replace(asked, logprobs=0)
        return asked
