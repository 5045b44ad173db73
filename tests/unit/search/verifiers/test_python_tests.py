"""Programs judged by tests and by examples."""

from __future__ import annotations

import pytest
from answers import answer

from unspool.errors import BadRequest, VerifierError
from unspool.search.verifiers.python_tests import PythonExamples, PythonTests
from unspool.search.verifiers.sandbox.limits import SandboxLimits

LIMITS = SandboxLimits(cpu_s=2, wall_s=20)


def test_an_answer_is_judged_by_the_share_of_tests_that_it_passes():
    tests = PythonTests("assert f(1) == 1\nassert f(2) == 4", limits=LIMITS, allow_weak=True)
    right = tests("", answer("Here:\n```python\ndef f(x): return x * x\n```\nDone."))
    half = tests("", answer("def f(x): return x"))
    none = tests("", answer("I cannot."))
    assert (right.score, right.accepted, right.detail) == (1, True, "2 of 2 tests")
    assert (half.score, half.accepted) == (0.5, False)
    assert half.detail == "1 of 2 tests; line 2: AssertionError"
    assert (none.score, none.accepted) == (0, False)


def test_an_answer_may_continue_the_prompt():
    tests = PythonTests("assert f(3) == 6", continues_prompt=True, limits=LIMITS, allow_weak=True)
    assert tests("def f(x):\n", answer("    return 2 * x\n")).accepted is True


def test_examples_in_the_prompt_judge_without_any_tests():
    examples = PythonExamples(limits=LIMITS, allow_weak=True)
    prompt = 'Write f.\n\n    >>> f(2)\n    4\n    >>> f(3)\n    9\n    """\n'
    assert examples(prompt, answer("def f(x): return x * x")).accepted is True
    assert examples(prompt, answer("def f(x): return x + 2")).score == 0.5


@pytest.mark.parametrize("prompt", ["Write f.", ">>> f(2)\n... 4\n>>>f"])
def test_a_prompt_without_examples_judges_nothing(prompt):
    with pytest.raises(VerifierError, match="examples"):
        PythonExamples()(prompt, answer("x"))


def test_tests_that_test_nothing_are_no_tests():
    for tests in ("", "# none", "assert ("):
        with pytest.raises(BadRequest, match="tests"):
            PythonTests(tests)
    with pytest.raises(VerifierError, match="tested nothing"):
        PythonTests("x = 1", limits=LIMITS, allow_weak=True)("", answer("pass"))
