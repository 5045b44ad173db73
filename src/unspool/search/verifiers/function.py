"""A function of one's own as a verifier."""

from __future__ import annotations

from collections.abc import Callable

from unspool.errors import BadRequest, UnspoolError, VerifierError, brief
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict, reaches
from unspool.search.verifiers.settings import check_accept_at
from unspool.types import Completion


@dataclass(frozen=True, slots=True)
class Function(Alone):
    """Calls function(prompt, text) for each answer.

    True and False accept and refuse, a number is a score, and a Verdict is taken as it is. What the function
    raises becomes a VerifierError that names it.
    """

    function: Callable[[str, str], bool | float | Verdict]
    accept_at: float | None = None  # accept an answer with at least this score

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadRequest(
                f"function must be callable, got {brief(self.function)}",
                way_out="give one that takes the prompt and the answer's text",
                code="bad_verifier",
            )
        check_accept_at(self.accept_at)

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        try:
            found = self.function(prompt, completion.text)
        except UnspoolError:
            raise
        except Exception as error:
            raise VerifierError(f"{name} raised {type(error).__name__}: {brief(str(error))}") from error
        if isinstance(found, Verdict):
            return found
        if isinstance(found, bool):
            return Verdict(float(found), found)
        if isinstance(found, (int, float)):
            if found != found:
                raise VerifierError(f"{name} returned nan; return a number, True, False or a Verdict")
            return Verdict(float(found), reaches(found, self.accept_at))
        raise VerifierError(f"{name} returned {brief(found)}; return a number, True, False or a Verdict")
