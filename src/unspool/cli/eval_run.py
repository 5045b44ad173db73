"""An evaluation from what was asked for to its answers: what benchmarks have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unspool.cli import amounts
from unspool.cli.eval_options import check_out, one_best, wanted_of
from unspool.cli.json_out import write_json
from unspool.cli.text import counted
from unspool.errors import BadRequest, reason
from unspool.light_dataclass import dataclass
from unspool.param_conflicts import COMPANIONS

if TYPE_CHECKING:
    from typing_extensions import Self

    from unspool.cli.decoding import Decoding
    from unspool.cli.model_options import ModelOptions
    from unspool.engine.limits import Limits
    from unspool.evals.answering import Wanted
    from unspool.evals.question import Answer, Question
    from unspool.llm import LLM
    from unspool.search.base import Search

_MOST_SIDE: Final = 1024  # answers decoded side by side


@dataclass(frozen=True, slots=True)
class How:
    """How an evaluation runs, as it was typed."""

    out: str | None
    fresh: bool
    concurrency: str
    quiet: bool
    as_json: bool

    @property
    def n_side(self) -> int:
        """Answers decoded side by side. Raises BadRequest."""
        return amounts.whole("--concurrency", self.concurrency, 1, _MOST_SIDE)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a benchmark puts to a model."""

    questions: Sequence[Question]
    stop: Sequence[str]
    benchmark: Mapping[str, Any]  # its name and what else is its own of the settings


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it: answers by series and by question, and the file that has them."""

    settings: Mapping[str, Any]
    path: Path
    answers: Mapping[str, Mapping[str, Sequence[Answer]]]


@dataclass(frozen=True, slots=True)
class EvalRun:
    """What was asked for. Make one with `of`, which refuses what it can before anything is loaded."""

    model: ModelOptions
    decoding: Decoding
    n: int  # samples of each problem
    greedy: bool
    search: Search | None  # whose best answer is evaluated too
    how: How

    @classmethod
    def of(
        cls, model: ModelOptions, decoding: Decoding, n: int, *, greedy: bool, search: str | None, how: How
    ) -> Self:
        """Raises BadRequest."""
        decoding, _ = model.beside(decoding), how.n_side
        run = cls(model, decoding, n, greedy, one_best(search, decoding, n), how)
        check_out(how.out)
        run._wanted(())
        return run

    def _wanted(self, stop: Sequence[str]) -> list[Wanted]:
        return wanted_of(self.decoding, self.n, greedy=self.greedy, stop=stop, search=self.search)

    def answered(self, ask: Callable[[LLM], Asked]) -> Answered:
        """Load the model and have all answers to what `ask` puts to it."""
        from unspool.evals.settings import settings_of

        llm = self.model.load(quiet=self.how.quiet, limits=_limits(self.how.n_side))
        try:
            asked = ask(llm)
            wanted = self._wanted(asked.stop)
            settings = settings_of(llm, asked.benchmark, self.model.runner, asked.questions, wanted)
            return _answer(llm, asked.questions, wanted, settings, self.how)
        finally:
            llm.close()


def _limits(n_side: int) -> Limits:
    """Room for so many answers side by side, each with all that may read beside it."""
    from unspool.engine.limits import Limits

    return Limits(n_rows=max(Limits().n_rows, n_side * (1 + len(COMPANIONS))), n_tasks=n_side)


def _answer(
    llm: LLM, questions: Sequence[Question], wanted: Sequence[Wanted], settings: dict[str, Any], how: How
) -> Answered:
    """Ctrl-C keeps the answers that there are, and tells them where JSON is wanted."""
    from unspool.cli.eval_progress import eval_progress
    from unspool.cli.eval_table import answered_dict
    from unspool.evals.answer_file import AnswerFile
    from unspool.evals.answering import answer_all, n_missing
    from unspool.evals.figures import answers_of, answers_so_far

    path = _usual_path(settings) if how.out is None else Path(how.out)
    with AnswerFile(path, settings, fresh=how.fresh) as file:
        if len(file) and not how.quiet:
            print(f"note: {path} has {counted(len(file), 'answer')}, not written again", file=sys.stderr)
        n_all = sum(len(questions) * each.n for each in wanted)
        n_left = sum(n_missing(questions, each, file) for each in wanted)
        try:
            with eval_progress(n_all, n_all - n_left, quiet=how.quiet) as watch:
                for each in wanted:
                    answer_all(llm, questions, each, file, concurrency=how.n_side, watch=watch)
        except KeyboardInterrupt:
            if how.as_json:
                so_far: dict[str, Any] = {
                    each.series: answers_so_far(file, questions, each.series, each.n) for each in wanted
                }
                told = answered_dict(Answered(settings, path, so_far), [])
                write_json(told | {"finish_reason": "cancelled"})
            if not how.quiet:
                print(
                    f"\nstopped with {counted(len(file), 'answer')} in {path}; the same command goes on",
                    file=sys.stderr,
                )
            raise
        answers: dict[str, Any] = {
            each.series: answers_of(file, questions, each.series, each.n) for each in wanted
        }
        return Answered(settings, path, answers)


def _usual_path(settings: Mapping[str, Any]) -> Path:
    """The file of these settings in the cache folder, which is made. Raises BadRequest."""
    from unspool.evals.settings import default_path

    path = default_path(settings)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(
            f"{path.parent}: {reason(error)}",
            way_out="give --out a file in another folder",
            code="eval_file",
        ) from error
    return path
