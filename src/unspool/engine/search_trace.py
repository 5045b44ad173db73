"""What a search tells of its steps, kept until its best answer is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from unspool.engine.detokenize import Vocabulary
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from unspool.search_tree import SearchStep, SearchTree


@dataclass(slots=True)
class TreeSoFar:
    """The steps of a search that is traced. It holds no more than MOST_CONSIDERED continuations, whole steps
    alone, so that a long and wide search costs a known amount of memory."""

    steps: list[SearchStep] = field(default_factory=list)
    n_considered: int = 0
    n_untold: int = 0

    def accept(self, step: SearchStep | None) -> None:
        if step is None:
            return
        from unspool.search_tree import MOST_CONSIDERED

        self.n_considered += len(step.considered)
        if self.n_untold or self.n_considered > MOST_CONSIDERED:
            self.n_untold += 1
        else:
            self.steps.append(step)

    def whole(self, answers: Sequence[tuple[int, float]]) -> SearchTree | None:
        """What is told in the end; None where nothing was traced."""
        if not self.steps and not self.n_untold:
            return None
        from unspool.search_tree import SearchTree

        return SearchTree(tuple(self.steps), tuple(answers), self.n_untold)


def spelled(step: SearchStep | None, vocabulary: Vocabulary) -> SearchStep | None:
    """The step with the texts of its tokens."""
    if step is None:
        return None
    texts = (replace(c, text=vocabulary.token_text(c.token_id)) for c in step.considered)
    return replace(step, considered=tuple(texts))
