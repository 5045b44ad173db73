"""Verifiers by name: ours, and those that installed packages register.

A package offers one under the entry point group `unspool.verifiers`; the entry point is a class (or a
function) whose keyword arguments are the verifier's settings:

    [project.entry-points."unspool.verifiers"]
    spelling = "my_package.spelling:Spelling"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any, Final

from unspool.errors import BadRequest, VerifierError, brief, nearest
from unspool.search.verifiers.base import Verifier

GROUP: Final = "unspool.verifiers"
BUILT_IN: Final = {
    "mean-logprob": "logprob:MeanLogprob",
    "sum-logprob": "logprob:SumLogprob",
    "normalised-logprob": "logprob:NormalisedLogprob",
    "regex": "regex:Regex",
    "json-schema": "json_schema:JsonSchema",
    "python-tests": "python_tests:PythonTests",
    "python-examples": "python_tests:PythonExamples",
    "arithmetic": "arithmetic:Arithmetic",
    "majority": "majority:Majority",
    "citations": "citations:Citations",
    "function": "function:Function",
    "http-reward": "http_reward:HttpReward",
    "llm-judge": "llm_judge:LlmJudge",
    "person": "person:Person",
}


def names() -> list[str]:
    """All that can be found, ours first."""
    return [*BUILT_IN, *sorted({point.name for point in metadata.entry_points(group=GROUP)} - set(BUILT_IN))]


def find(name: str) -> Callable[..., Verifier]:
    """What makes a verifier; our names cannot be taken by others. Raises BadRequest."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        made: Callable[..., Verifier] = getattr(
            import_module(f"unspool.search.verifiers.{module}"), attribute
        )
        return made
    for point in metadata.entry_points(group=GROUP, name=name):
        try:
            loaded: Callable[..., Verifier] = point.load()
        except Exception as error:
            raise VerifierError(
                f"verifier {name!r} ({point.value}) cannot be imported: {brief(str(error))}"
            ) from error
        return loaded
    raise BadRequest(f"there is no verifier {brief(name)}; {nearest(name, names())}", code="unknown_verifier")


def make(name: str, /, **settings: Any) -> Verifier:
    """A verifier by name with its settings. Raises BadRequest for settings that it does not have."""
    maker = find(name)
    try:
        known = inspect.signature(maker)
        known.bind(**settings)
    except TypeError as error:
        takes = ", ".join(p for p in known.parameters if not p.startswith("_")) or "nothing"
        raise BadRequest(f"verifier {name}: {error}; it takes: {takes}", code="bad_verifier") from None
    return maker(**settings)
