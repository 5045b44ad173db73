"""What every search with beams can be told, and what such searches have in common."""

from __future__ import annotations

from typing import ClassVar, Final

from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass
from unspool.search.length_norm import Kind, LengthNorm
from unspool.search.settings import EarlyStopping, check_early_stopping, check_whole
from unspool.search.stopping import Rule

MOST_BEAMS: Final = 256
_ALPHA: Final = 1.0  # where nobody says another


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSettings:
    """The settings of Beam, which says what they mean; other searches add their own."""

    width: int = 4
    n_best: int = 1
    length_norm: Kind = "power"
    alpha: float = _ALPHA
    early_stopping: EarlyStopping = False

    n_first: ClassVar[int] = 1
    forks_later: ClassVar[bool] = True
    wants_candidates: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    is_ranked: ClassVar[bool] = True
    good_width: ClassVar[str] = "1 is greedy search"  # said to who gave one out of range

    def __post_init__(self) -> None:
        check_whole("width", self.width, MOST_BEAMS, self.good_width)
        check_whole("n_best", self.n_best, self.width, "a wider beam has more answers")
        check_early_stopping(self.early_stopping)
        LengthNorm(self.length_norm, self.alpha)
        # The usual alpha is what nobody may have typed, and 0 says what the norm does.
        if self.length_norm == "none" and self.alpha not in (0, _ALPHA):
            raise BadRequest(
                f"alpha={self.alpha:g} has no meaning beside length_norm='none', which divides by 1; leave "
                "it out, or take 'power' or 'gnmt'",
                code="bad_alpha",
            )

    @property
    def n_answers(self) -> int:
        return self.n_best

    @property
    def max_branches(self) -> int:
        return self.width

    def rule(self, width: int) -> Rule:
        """When a beam of a width is over: its own, or that of one of its groups."""
        return Rule(width, LengthNorm(self.length_norm, self.alpha), self.early_stopping)
