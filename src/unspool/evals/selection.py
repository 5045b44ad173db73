"""Which of several answers a verifier would have picked, from what it said of each."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.search.verifiers.base import Verdict, Verifier


def picked(verifier: Verifier, verdicts: Sequence[Verdict]) -> int:
    """The answer that ranks first; of equals the earliest."""
    return verifier.rank(verdicts, 0).order[0]


def chance_of_right(verifier: Verifier, verdicts: Sequence[Verdict], are_right: Sequence[bool]) -> float:
    """How likely the answer that is picked is right, whatever the order in which they were written.

    Answers that the verifier finds equal are picked by age, and answers that are drawn independently may
    come in any order: so each of the equals that rank first is the pick with the same chance. This has the
    mean of picking once, without its luck; where nothing is known of any answer it is that of a single one.
    """
    first = verdicts[picked(verifier, verdicts)]
    equals = [
        is_right
        for verdict, is_right in zip(verdicts, are_right, strict=True)
        if (verdict.accepted, verdict.score) == (first.accepted, first.score)
    ]
    return sum(equals) / len(equals)
