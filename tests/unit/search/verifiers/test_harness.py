"""How tests of an answer are counted, in this process."""

from __future__ import annotations

import sys

import pytest

from unspool.search.verifiers.sandbox import harness
from unspool.search.verifiers.sandbox.harness import run_examples, run_tests


@pytest.fixture(autouse=True)
def answer_leaves(monkeypatch):
    yield
    sys.modules.pop(harness.ANSWER, None)


def counts(tally):
    return tally.n_passed, tally.n_failed


def test_asserts_functions_and_methods_are_tests():
    tests = """
import unittest
limit = 3
assert f(1) == 1
assert f(2) == 1
def test_small(): assert f(limit) == 3
def test_large(): assert f(9) == 8
def helper(): raise RuntimeError
class TestF(unittest.TestCase):
    def test_a(self): self.assertEqual(f(1), 1)
    def test_b(self): self.assertEqual(f(1), 2)
"""
    tally = run_tests("def f(x): return x", tests)
    assert counts(tally) == (3, 3)
    assert tally.first_failure == "line 5: AssertionError"


def test_tests_after_one_that_breaks_off_have_failed():
    tally = run_tests("", "assert True\nx = 1 / 0\nassert True\nassert True")
    assert counts(tally) == (1, 3)
    assert tally.first_failure == "line 2: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("code", ["x = ", "1 / 0", "raise SystemExit(0)", "raise KeyboardInterrupt"])
def test_an_answer_that_does_not_run_is_one_failure(code):
    tally = run_tests(code, "assert True")
    assert counts(tally) == (0, 1)
    assert tally.first_failure.startswith("the answer: ")


def test_an_answer_is_no_main_program():
    assert counts(run_tests("if __name__ == '__main__': raise SystemExit", "assert True")) == (1, 0)


def test_an_exception_that_cannot_be_shown_is_named():
    code = "class E(Exception):\n    def __str__(self): raise ValueError\ndef f(): raise E"
    assert run_tests(code, "assert f()").first_failure == "line 1: E"


def test_functions_of_the_answer_are_no_tests():
    assert counts(run_tests("def test_it(): raise ValueError", "assert True")) == (1, 0)


EXAMPLES = '''
def double(x):
    """Twice as much.

    >>> double(2)
    4
    >>> double("a")
    'aa'
    >>> double(None)
    Traceback (most recent call last):
    TypeError: no
    """
'''


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def double(x):\n    if x is None: raise TypeError('no')\n    return x + x", (3, 0)),
        ("def double(x): return 4", (1, 2)),
        ("def double(x): return x * 2", (2, 1)),
    ],
)
def test_examples_of_a_docstring_are_tests(code, expected):
    assert counts(run_examples(code, EXAMPLES)) == expected


def test_the_end_of_a_fence_or_docstring_below_an_example_is_no_output():
    assert counts(run_examples("f = str", "```\n>>> f(1)\n'1'\n```\n")) == (1, 0)
    assert counts(run_examples("f = str", ">>> f(1)\n'1'\n>>> f(2)\n'2'\n\"\"\"\n")) == (2, 0)


def test_a_wrong_example_says_what_came():
    tally = run_examples("def double(x): return 5", EXAMPLES)
    assert tally.first_failure == "double(2): wanted '4', got '5'"
    assert counts(run_examples("x = ", EXAMPLES)) == (0, 1)
