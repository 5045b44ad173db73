"""Verifiers by name: ours, and those that installed packages register.

A package offers one under the entry point group `unspool.verifiers`; the entry point is a class (or a
function) whose keyword arguments are the verifier's settings:

    [project.entry-points."unspool.verifiers"]
    spelling = "my_package.spelling:Spelling"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
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

# Settings that come from a command line or a file are checked by what the verifier declares.
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "None": (type(None),),
}
_WORDS: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "None": "none",
}
_PARTS: Final = {
    "SandboxLimits": "unspool.search.verifiers.sandbox.limits",
    "JudgePrompt": "unspool.search.verifiers.llm_judge",
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
    known = inspect.signature(maker)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.parameters.values())
    if not takes_any and (strange := [each for each in settings if each not in known.parameters]):
        raise BadRequest(
            f"verifier {name} has no setting {brief(strange[0])}; it takes: {_taken(known)}",
            code="bad_verifier",
        )
    try:
        known.bind(**settings)
    except TypeError as error:
        raise BadRequest(
            f"verifier {name}: {error}; it takes: {_taken(known)}", code="bad_verifier"
        ) from None
    return maker(**{each: _read(name, maker, each, value) for each, value in settings.items()})


def _taken(known: inspect.Signature) -> str:
    return ", ".join(name for name in known.parameters if not name.startswith("_")) or "nothing"


def _read(name: str, maker: Any, setting: str, value: Any) -> Any:
    """A setting as the verifier declares it; a mapping where it wants a part with fields of its own."""
    declared = getattr(maker, "__dataclass_fields__", {}).get(setting)
    kinds = str(declared.type).split(" | ") if declared is not None else []
    if len(kinds) == 1 and kinds[0] in _PARTS and isinstance(value, Mapping):
        part = getattr(import_module(_PARTS[kinds[0]]), kinds[0])
        try:
            return part(**value)
        except TypeError as error:
            raise BadRequest(f"{setting} of verifier {name}: {error}", code="bad_verifier") from None
    if len(kinds) == 1 and kinds[0] in _PARTS and type(value).__name__ != kinds[0]:
        raise BadRequest(
            f"{setting} of verifier {name} must be an object with settings of its own, got {brief(value)}",
            code="bad_verifier",
        )
    if not kinds or not all(kind in _KINDS for kind in kinds):
        return value
    if any(isinstance(value, _KINDS[kind]) and isinstance(value, bool) <= (kind == "bool") for kind in kinds):
        return value
    wanted = " or ".join(_WORDS[kind] for kind in kinds)
    raise BadRequest(
        f"{setting} of verifier {name} must be {wanted}, got {brief(value)}", code="bad_verifier"
    )
