"""Word problems as questions, and what a majority vote is worth (Wang et al. 2022, arXiv 2203.11171)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from unspool.evals.figures import Figure
from unspool.evals.intervals import bootstrap
from unspool.evals.question import Answer, Marks, Question
from unspool.evals.selection import picked
from unspool.evals.word_problems import WordProblem
from unspool.light_dataclass import dataclass
from unspool.search.pass_at_k import wilson
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.majority import Majority
from unspool.search.verifiers.regex import Regex

if TYPE_CHECKING:
    from unspool.llm import LLM
    from unspool.types import Completion

ANSWER_REGEX: Final = r"(?i)answer:\W{0,4}?(-?\d[\d,]*)"
_ASKS: Final = (
    "Solve each problem with short equations, one a line. Write the result on a last line of its own, as a "
    "whole number without a unit: Answer: N"
)
# Worked examples show what is wanted better than words do, and keep answers short.
_EXAMPLES: Final = (
    (
        "A baker fills 4 trays with 6 rolls each and sells 9 of the rolls. How many rolls are left?",
        "4 * 6 = 24\n24 - 9 = 15\nAnswer: 15",
    ),
    (
        "Lena works 5 hours on Monday and 3 hours on Tuesday for 12 dollars an hour, and spends 20 dollars. "
        "How many dollars does she have left?",
        "5 + 3 = 8\n8 * 12 = 96\n96 - 20 = 76\nAnswer: 76",
    ),
)
_FINDS: Final = Regex(ANSWER_REGEX)
_VOTES: Final = Majority(answers=_FINDS)


def questions_of(llm: LLM, problems: Sequence[WordProblem]) -> list[Question]:
    """Behind two worked examples: in a chat where the model has a template, else as text to continue."""
    return [Question(problem.name, _prompt_ids(llm, problem), _Judge(problem.answer)) for problem in problems]


def stop_for(llm: LLM) -> tuple[str, ...]:
    """Where an answer ends that does not end by itself: text goes on with a problem of its own making."""
    return () if llm.has_chat_template else ("\n\n",)


def _prompt_ids(llm: LLM, problem: WordProblem) -> tuple[int, ...]:
    if not llm.has_chat_template:
        examples = "".join(f"{question}\n{answer}\n\n" for question, answer in _EXAMPLES)
        return tuple(llm.tokenize(f"{_ASKS}\n\n{examples}{problem.question}\n"))
    messages: list[dict[str, str]] = []
    for question, answer in _EXAMPLES:
        asked = question if messages else f"{_ASKS}\n\n{question}"
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    messages.append({"role": "user", "content": problem.question})
    return tuple(llm.chat_template.encode(messages))


@dataclass(frozen=True, slots=True)
class _Judge:
    """answer: the number that the answer ends with, None without one. correct: whether it is right."""

    expected: int

    def __call__(self, completion: Completion) -> Marks:
        found = _FINDS("", completion).answer
        answer = None if found is None else _plain(found)
        return {"answer": answer, "correct": answer == str(self.expected)}


def _plain(number: str) -> str:
    """One spelling for each whole number, so that votes for it add up; of any length."""
    digits = number.replace(",", "").lstrip("-").lstrip("0") or "0"
    return f"-{digits}" if number.startswith("-") and digits != "0" else digits


def single_figures(single: Mapping[str, Sequence[Answer]], how: str = "greedy") -> list[Figure]:
    """The share of problems whose only answer is right: the greedy one, or the best of a search."""
    n_right = sum(_is_right(answers[0]) for answers in single.values())
    return [Figure(f"right, {how}", wilson(n_right, len(single)), len(single), "Wilson")]


def sample_figures(samples: Mapping[str, Sequence[Answer]], n: int, *, seed: int = 0) -> list[Figure]:
    """A single sample, the majority of n, and the difference, problem by problem."""
    n_problems = len(samples)
    single = [sum(map(_is_right, each)) / n for each in samples.values()]
    figures = [
        Figure("right, one sample", bootstrap(single, seed=seed), n_problems, "bootstrap over problems")
    ]
    if n == 1:
        return figures
    vote = [float(_is_right(each[picked(_VOTES, [*map(_vote, each)])])) for each in samples.values()]
    margin = [v - s for v, s in zip(vote, single, strict=True)]
    return [
        *figures,
        Figure(f"right, majority of {n}", wilson(int(sum(vote)), n_problems), n_problems, "Wilson"),
        Figure(
            "margin over one sample",
            bootstrap(margin, seed=seed),
            n_problems,
            "paired bootstrap over problems",
            is_difference=True,
        ),
    ]


def _is_right(answer: Answer) -> bool:
    return answer.marks["correct"] is True


def _vote(answer: Answer) -> Verdict:
    found = answer.marks["answer"]
    return Verdict(0.0) if found is None else Verdict(1.0, None, found)
