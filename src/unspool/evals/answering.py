"""Puts questions to a model, many at once, and keeps each answer as soon as it is judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from unspool.asking import completions_of
from unspool.evals.answer_file import AnswerFile, Key
from unspool.evals.question import Answer, Marks, Question, Series, seed_of
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.base import Search

if TYPE_CHECKING:
    from unspool.llm import LLM

_N_JUDGES: Final = 2  # requests whose answers are judged while others decode


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which answers: n of each question, decoded with these parameters."""

    series: Series
    params: DecodingParams  # the seed is that of the whole evaluation; each question gets its own of it
    n: int
    search: Search | None = None  # with one answer; None samples

    @property
    def n_branches(self) -> int:
        """Of a question at once."""
        return max(1, self.n) if self.search is None else self.search.max_branches


@dataclass(frozen=True, slots=True)
class _Job:
    """One request: answers [first, first + n) of a question."""

    question: Question
    first: int
    n: int


class _Stopped(Exception):
    """The run is over; nobody wants the answers of this job."""


def n_missing(questions: Sequence[Question], wanted: Wanted, file: AnswerFile) -> int:
    """How many answers are still to be written."""
    return sum(job.n for job in _jobs(questions, wanted, file, wanted.n))


def answer_all(
    llm: LLM,
    questions: Sequence[Question],
    wanted: Wanted,
    file: AnswerFile,
    *,
    concurrency: int,
    watch: Callable[[Sequence[Answer]], None] = lambda _: None,
) -> None:
    """Have all wanted answers in the file. Those that are there are not written again.

    About `concurrency` answers are decoded side by side: a request has so many at most, which share what was
    read of its prompt, and while some are judged (tests take a while) others decode. `watch` hears of
    answers, on the thread that called, once they are kept. Whatever ends the run early, an error or Ctrl-C,
    ends the requests in flight too, and the answers that were kept stay.
    """
    n_workers = max(1, -(-concurrency // wanted.n_branches)) + _N_JUDGES
    over = threading.Event()
    decoding = threading.Semaphore(n_workers - _N_JUDGES)

    def run(job: _Job) -> list[Answer]:
        return _run(llm, job, wanted, decoding, over)

    waiting = iter(_jobs(questions, wanted, file, concurrency))
    running: set[Future[list[Answer]]] = set()
    with ThreadPoolExecutor(n_workers, thread_name_prefix="unspool-eval") as pool:
        try:
            while True:
                while len(running) < n_workers and (job := next(waiting, None)) is not None:
                    running.add(pool.submit(run, job))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    answers = future.result()
                    file.add(answers)
                    watch(answers)
        finally:
            over.set()


def _jobs(questions: Sequence[Question], wanted: Wanted, file: AnswerFile, most: int) -> Iterator[_Job]:
    """What is missing, as few requests of at most so many answers as it takes."""
    for question in questions:
        first: int | None = None
        for branch in range(wanted.n + 1):
            is_missing = branch < wanted.n and Key(question.name, wanted.series, branch) not in file
            if is_missing and first is None:
                first = branch
            elif first is not None and (not is_missing or branch - first == most):
                yield _Job(question, first, branch - first)
                first = branch if is_missing else None


def _run(
    llm: LLM, job: _Job, wanted: Wanted, decoding: threading.Semaphore, over: threading.Event
) -> list[Answer]:
    question, params = job.question, wanted.params
    if wanted.search is not None and not wanted.search.draws:
        params = replace(params, seed=None)  # the evaluation's, which is for what is drawn
    elif not params.is_greedy:
        assert params.seed is not None, "an evaluation has a seed"
        params = replace(params, seed=seed_of(params.seed, question.name))
    with decoding:
        events = []
        if over.is_set():
            raise _Stopped
        with llm.stream(
            question.prompt_ids, params, n=job.n, branch=job.first, search=wanted.search
        ) as stream:
            for event in stream:
                events.append(event)
                if over.is_set():
                    raise _Stopped
    answers, marks_of = [], dict[str, Marks]()
    for completion in completions_of(events, params):
        if over.is_set():
            raise _Stopped
        if (
            completion.text not in marks_of
        ):  # short programs are often the same, and running them takes a while
            marks_of[completion.text] = question.judge(completion)
        answers.append(
            Answer(
                question.name,
                wanted.series,
                completion.branch,
                completion.text,
                completion.finish_reason,
                len(completion.token_ids),
                marks_of[completion.text],
            )
        )
    return answers
