"""pass@1, pass@k, and what the examples that prompts show are worth, from judged answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from unspool.evals.figures import Figure
from unspool.evals.intervals import bootstrap
from unspool.evals.question import Answer
from unspool.evals.selection import chance_of_right
from unspool.search.pass_at_k import pass_at_k, wilson
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.python_tests import PythonExamples

_RANKS: Final = PythonExamples()
_BOOTSTRAP: Final = "bootstrap over problems"


def single_figures(single: Mapping[str, Sequence[Answer]], how: str = "greedy") -> list[Figure]:
    """The share of problems that the only answer solves: the greedy one, or the best of a search."""
    n_passed = sum(_passed(answers[0]) for answers in single.values())
    return [Figure(f"pass@1, {how}", wilson(n_passed, len(single)), len(single), "Wilson")]


def sample_figures(
    samples: Mapping[str, Sequence[Answer]], n: int, ks: Sequence[int], *, seed: int = 0
) -> list[Figure]:
    """pass@k for each k, and best of n with the prompt's examples as verifier against a single sample.

    The verifier runs the examples that a prompt shows as doctest reads them (>>>), ranks the n answers as
    `unspool best --verifier python-examples` does, and its first is the answer. A prompt without such
    examples gives it nothing to go by: there it is a single sample, which makes the margin over all problems
    smaller than over those that show some; both are told.
    """
    figures = [
        Figure(
            f"pass@{k} of {n} samples",
            bootstrap([pass_at_k(n, sum(map(_passed, each)), k) for each in samples.values()], seed=seed),
            len(samples),
            _BOOTSTRAP,
        )
        for k in ks
    ]
    if n == 1:
        return figures
    showing = {name: each for name, each in samples.items() if each[0].marks["shown_score"] is not None}
    figures += _best_of(samples, n, "", seed)[1 in ks :]  # pass@1 is what a single sample is worth
    if showing and len(showing) < len(samples):
        figures += _best_of(showing, n, ", where examples are shown", seed)
    return figures


def _best_of(samples: Mapping[str, Sequence[Answer]], n: int, where: str, seed: int) -> list[Figure]:
    single = [sum(map(_passed, each)) / n for each in samples.values()]
    best = [chance_of_right(_RANKS, [*map(_shown, each)], [*map(_passed, each)]) for each in samples.values()]
    margin = [b - s for b, s in zip(best, single, strict=True)]
    return [
        Figure(f"one sample{where}", bootstrap(single, seed=seed), len(samples), _BOOTSTRAP),
        Figure(f"best of {n} by shown examples{where}", bootstrap(best, seed=seed), len(samples), _BOOTSTRAP),
        Figure(
            f"margin over one sample{where}",
            bootstrap(margin, seed=seed),
            len(samples),
            f"paired {_BOOTSTRAP}",
            is_difference=True,
        ),
    ]


def _passed(answer: Answer) -> bool:
    return answer.marks["passed"] is True


def _shown(answer: Answer) -> Verdict:
    """What the shown examples say; the same of all where there are none."""
    score, accepted = answer.marks["shown_score"], answer.marks["shown_accepted"]
    return Verdict(0.0, None) if score is None else Verdict(float(score), accepted)
