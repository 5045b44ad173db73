"""Tests that a program must pass, run in a locked-down process (`sandbox/run.py` says what holds where)."""

from __future__ import annotations

import ast
import doctest
from dataclasses import field

from unspool.errors import BadRequest, VerifierError, brief
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict
from unspool.search.verifiers.code_block import code_of
from unspool.search.verifiers.sandbox.limits import SandboxLimits
from unspool.search.verifiers.sandbox.run import SandboxResult, run
from unspool.types import Completion


@dataclass(frozen=True, slots=True)
class PythonTests(Alone):
    """Accepts a program that passes all tests; its score is the share that it passes.

    `tests` is Python that sees the names of the program, and may `import answer`. Each top-level assert, each
    function test_* and each method of a unittest.TestCase is a test. The program is the first Python block of
    the answer, or all of it; with `continues_prompt` the prompt and the answer are, as in HumanEval.
    """

    tests: str
    continues_prompt: bool = False
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    allow_weak: bool = False  # run also where the system cannot shut off signals, network and files

    def __post_init__(self) -> None:
        try:
            is_empty = not ast.parse(self.tests).body
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
            raise BadRequest(f"the tests are no Python: {brief(str(error))}", code="bad_tests") from None
        if is_empty:
            raise BadRequest("there are no tests; give at least one assert", code="bad_tests")

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        code = program_of(prompt, completion.text, continues_prompt=self.continues_prompt)
        result = run(code, self.tests, limits=self.limits, allow_weak=self.allow_weak)
        if result.problem == "there are no tests":
            raise VerifierError("the tests ran and tested nothing; give at least one assert")
        return verdict_of(result)


@dataclass(frozen=True, slots=True)
class PythonExamples(Alone):
    """Accepts a program that does what the examples in the prompt show (`>>> f(1)`, and its result below).

    Everything else is as PythonTests has it.
    """

    continues_prompt: bool = False
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    allow_weak: bool = False

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        if (problem := why_no_examples(prompt)) is not None:
            raise VerifierError(problem)
        code = program_of(prompt, completion.text, continues_prompt=self.continues_prompt)
        return verdict_of(run(code, prompt, kind="examples", limits=self.limits, allow_weak=self.allow_weak))


def why_no_examples(prompt: str) -> str | None:
    """Why PythonExamples has nothing to go by in a prompt; None where it has."""
    try:
        examples = doctest.DocTestParser().get_examples(prompt)
    except ValueError as error:
        return f"the examples in the prompt are malformed: {brief(str(error))}"
    return None if examples else "the prompt has no examples (lines that begin with >>>) to test by"


def program_of(prompt: str, text: str, *, continues_prompt: bool) -> str:
    return prompt + text if continues_prompt else code_of(text)


def verdict_of(result: SandboxResult) -> Verdict:
    n_tests = result.n_passed + result.n_failed
    share = result.n_passed / n_tests if n_tests else 0.0
    detail = f"{result.n_passed} of {n_tests} tests" if n_tests else ""
    if result.problem:
        detail += f"; {result.problem}" if detail else result.problem
    return Verdict(share, result.has_passed, detail=detail)
