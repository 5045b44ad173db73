"""Runs an answer and its tests in one namespace, and counts what passes."""

from __future__ import annotations

import ast
import doctest
import re
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final

from unspool.light_dataclass import dataclass

ANSWER: Final = "answer"  # the module that the answer is; tests see its names, and may import it too
_MAX_CHARACTERS: Final = 200
# Below the last example of a text may stand the end of its docstring, or of a fenced block: no output.
_MARKS: Final = re.compile(r"^[ \t]*(?:\"{3}|'{3}|`{3}).*$", re.MULTILINE)


@dataclass(slots=True)
class Tally:
    """What was counted so far."""

    n_passed: int = 0
    n_failed: int = 0
    first_failure: str = ""
    failed_names: list[str] = field(default_factory=list)

    def count(self, name: str, test: Callable[[], Any]) -> bool:
        """Run a test; whether it passed. Whatever it raises is a failure."""
        try:
            test()
        except BaseException as error:
            self.fail(name, error)
            return False
        self.n_passed += 1
        return True

    def fail(self, name: str, error: BaseException | str) -> None:
        self.n_failed += 1
        if not self.first_failure:
            said = error if isinstance(error, str) else _said(error)
            self.first_failure = f"{name}: {said}"[:_MAX_CHARACTERS]


def run_tests(code: str, tests: str) -> Tally:
    """Each top-level assert of the tests is a test, and so are functions test_* without required arguments
    and methods of unittest.TestCase. Any other statement that raises is a failure and ends the run."""
    tally = Tally()
    module = _answer(code, tally)
    if module is None:
        return tally
    space = dict(vars(module), __name__="tests")
    before = set(space)
    # The tests of an answer that breaks off are not all run: those that were not have failed.
    statements = ast.parse(tests, "tests").body
    for index, statement in enumerate(statements):
        run = _runner(statement, space)
        name = f"line {statement.lineno}"
        if isinstance(statement, ast.Assert):
            tally.count(name, run)
        else:
            try:
                run()
            except BaseException as error:
                tally.fail(name, error)
                for rest in statements[index + 1 :]:
                    if isinstance(rest, ast.Assert):
                        tally.fail(f"line {rest.lineno}", "not run")
                return tally
    for name in [name for name in space if name not in before]:
        for label, test in _tests_of(name, space[name]):
            tally.count(label, test)
    return tally


def run_examples(code: str, text: str) -> Tally:
    """The examples of a text (`>>> f(1)` and the line below) are the tests."""
    tally = Tally()
    module = _answer(code, tally)
    if module is None:
        return tally
    checker = doctest.OutputChecker()
    runner = _Runner(checker, tally)
    test = doctest.DocTestParser().get_doctest(_MARKS.sub("", text), dict(vars(module)), "examples", None, 0)
    runner.run(test, clear_globs=False)
    return tally


class _Runner(doctest.DocTestRunner):
    """Counts, and writes nothing."""

    def __init__(self, checker: doctest.OutputChecker, tally: Tally) -> None:
        super().__init__(checker, verbose=False)
        self._tally = tally

    def report_start(self, out: Any, test: Any, example: Any) -> None: ...

    def report_success(self, out: Any, test: Any, example: Any, got: str) -> None:
        self._tally.n_passed += 1

    def report_failure(self, out: Any, test: Any, example: Any, got: str) -> None:
        self._tally.fail(example.source.strip(), f"wanted {example.want.strip()!r}, got {got.strip()!r}")

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, exc_info: Any) -> None:
        self._tally.fail(example.source.strip(), exc_info[1])


def _answer(code: str, tally: Tally) -> types.ModuleType | None:
    """The answer as a module; None where it does not run, which is counted as one failure."""
    module = types.ModuleType(ANSWER)
    sys.modules[ANSWER] = module
    try:
        exec(compile(code, ANSWER, "exec"), vars(module))
    except BaseException as error:
        tally.fail("the answer", error)
        return None
    return module


def _runner(statement: ast.stmt, space: dict[str, Any]) -> Callable[[], None]:
    compiled = compile(ast.Module([statement], []), "tests", "exec")
    return lambda: exec(compiled, space)


def _tests_of(name: str, value: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    if isinstance(value, types.FunctionType) and name.startswith("test"):
        yield name, value
    elif isinstance(value, type) and issubclass(value, unittest.TestCase):
        for method in unittest.defaultTestLoader.getTestCaseNames(value):
            yield f"{name}.{method}", _method(value(method))


def _method(case: unittest.TestCase) -> Callable[[], None]:
    def run() -> None:
        result = unittest.TestResult()
        case.run(result)
        if problems := [*result.failures, *result.errors]:
            raise AssertionError(problems[0][1].strip().splitlines()[-1])

    return run


def _said(error: BaseException) -> str:
    try:
        said = " ".join(str(error).split())
    except BaseException:  # an exception of the answer's own, with a __str__ of its own
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
