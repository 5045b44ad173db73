"""A JSON schema that the answer must satisfy. The jsonschema package validates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from unspool.errors import BadRequest, brief
from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict
from unspool.types import Completion

_FENCED: Final = re.compile(r"```[ \t]*(?:json)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JsonSchema(Alone):
    """Accepts an answer that is JSON and satisfies a schema (draft 2020-12 unless it names another).

    The value is the whole text; unless `strict`, else the first fenced block that is JSON, or the first
    object or array in the text. A value that breaks the schema scores higher than no value at all, and lower
    the more is wrong. NaN, Infinity and a name that occurs twice are no JSON here. References to other
    documents are not followed. The answer is the value in one spelling, so that equal values vote together.
    """

    schema: Mapping[str, Any] | bool
    strict: bool = False
    _validator: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_validator", _validator_of(self.schema))

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonSchema, (self.schema, self.strict)  # a validator cannot be pickled, and is made again

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        found = next(_values(completion.text, strict=self.strict), None)
        if found is None:
            return Verdict(0.0, False, detail="no JSON")
        (value,) = found
        try:
            problems = [
                f"{error.json_path}: {brief(error.message)}" for error in self._validator.iter_errors(value)
            ]
        except RecursionError:
            problems = ["nested too deeply"]
        except Exception as error:  # a reference that leads nowhere, for one: the schema's fault
            raise BadRequest(
                f"the schema cannot be applied: {brief(str(error))}; mend it", code="bad_verifier"
            ) from error
        answer = json.dumps(value, sort_keys=True, ensure_ascii=False)
        if not problems:
            return Verdict(1.0, True, answer, "valid")
        detail = problems[0] + (f", and {len(problems) - 1} more" if len(problems) > 1 else "")
        return Verdict(0.5 / len(problems), False, answer, detail)


def _validator_of(schema: Any) -> Any:
    """Raises BadRequest for what is no schema, and where jsonschema is missing."""
    try:
        import jsonschema
        import referencing
    except ImportError:
        raise BadRequest(
            "json-schema needs the package jsonschema 4.18 or later; install it with pip install jsonschema",
            code="missing_package",
        ) from None
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise BadRequest(
            f"{error.json_path} of the schema: {brief(error.message)}; mend it", code="bad_verifier"
        ) from None
    except RecursionError:
        raise BadRequest("the schema is nested too deeply", code="bad_verifier") from None
    # An empty registry: nothing is fetched, whatever the schema refers to.
    return kind(schema, registry=referencing.Registry())


def _values(text: str, *, strict: bool) -> Iterator[tuple[Any]]:
    """The JSON values of a text, each in a tuple, because None is one."""
    yield from _whole(text)
    if strict:
        return
    for match in _FENCED.finditer(text):
        yield from _whole(match[1])
    for start in re.finditer(r"[{\[]", text):
        try:
            yield (_DECODER.raw_decode(text, start.start())[0],)
        except (ValueError, RecursionError):
            continue


def _whole(text: str) -> Iterator[tuple[Any]]:
    try:
        yield (_DECODER.decode(text),)
    except (ValueError, RecursionError):
        return


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)
