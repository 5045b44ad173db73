"""What a search is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.rules import Rules
from unspool.types import Move, Processed, Row

if TYPE_CHECKING:
    from unspool.search_tree import SearchStep

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Advance(Generic[State]):
    """What a search decided, and what it will know next time."""

    state: State
    moves: tuple[Move, ...]
    told: SearchStep | None = None  # for who traces


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search that speaks of texts has to know of its request and the model's tokens."""

    params: DecodingParams
    rules: Rules
    n_new_max: int  # tokens that an answer may have
    n_vocab: int
    spellings: Callable[[str], Sequence[tuple[int, ...]]]  # the ways to write a text in token ids
    token_bytes: Callable[[int], bytes]


class Search(Protocol):
    """Decides how the branches of one request grow. Pure: it returns moves, and `engine.commit` makes them.

    What it has to remember is a value that it gets and returns, so that a step can be run again. It knows
    branches by number and never sees pages, text or the rest of the batch. Whether a token would end a
    text (end of sequence, stop string, length) a row says: `Row.ends_with`.
    """

    @property
    def n_first(self) -> int:
        """How many rows there are at the end of the prompt, one for each branch that starts there, though
        only the first of them is there to be forked: branch 0, or what Request.first_branch says."""
        ...

    @property
    def n_answers(self) -> int:
        """How many answers there will be."""
        ...

    @property
    def max_branches(self) -> int:
        """How many branches may live at once; KV pages are promised for as many."""
        ...

    @property
    def forks_later(self) -> bool:
        """Whether it forks after its first step too: a page for each branch that may be born is then kept
        ready. Where all branches live, some are dropped before others are forked."""
        ...

    @property
    def wants_candidates(self) -> bool:
        """Whether it looks at all survivors of a row, and not only at the token chosen among them."""
        ...

    @property
    def n_candidates(self) -> int | None:
        """Of those, how many of the first in order it mostly looks at; None when it is all. Where it turns
        out to need more it asks for all (Candidates.whole)."""
        ...

    @property
    def draws(self) -> bool:
        """Whether random numbers have a part in it, at a temperature above 0."""
        ...

    @property
    def is_ranked(self) -> bool:
        """Whether it tells its answers at the end, by Answer. If not, each branch is one as it is written."""
        ...

    def check(self, params: DecodingParams) -> None:
        """Raise BadRequest for parameters that have no meaning here."""
        ...

    def start(self) -> Any:
        """What it knows at the end of the prompt."""
        ...

    def standing(self, state: Any) -> tuple[tuple[int, float], ...]:
        """(branch, score) of the answers if it had to end now, best first; of a search that is ranked."""
        ...

    def advance(self, state: Any, rows: Sequence[Row], processed: Sequence[Processed]) -> Advance[Any]:
        """Moves for the live branches, given their rows and what the pipeline made of each, in order."""
        ...


@runtime_checkable
class SpeaksOfTexts(Protocol):
    """A search with a setting that is text, which has to become token ids before it can run."""

    def bound(self, asked: Asked) -> Search:
        """The same search for one request. Raises BadRequest for what it can never find."""
        ...
