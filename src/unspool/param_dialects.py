"""The from_* and to_* of DecodingParams: other engines' names, to ours and back.

Kept apart from the parameters themselves; each call opens its dialect in `unspool.mappings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from unspool.errors import BadRequest, brief

if TYPE_CHECKING:
    from unspool.mappings import Change
    from unspool.params import DecodingParams

    Read = tuple[DecodingParams, tuple[Change, ...]]
    Written = tuple[dict[str, Any], tuple[Change, ...]]


_NOTHING: Final = object()  # None is a value, and no parameters


class Dialects:
    """from_* take a mapping or an object with such names, or the names as keyword arguments, and give
    (parameters, what changed on the way).

    The parameters do what that engine would do, its defaults and its order included. What changed: values
    that mean something else here, defaults that were filled in, names that are about something other than
    decoding. BadRequest for unknown names, and for what would change the text and has no counterpart.

    to_* give (their names with values, what they cannot say).
    """

    __slots__ = ()

    @staticmethod
    def from_openai(given: object = _NOTHING, /, **named: Any) -> Read:
        """From a request of chat or text completions."""
        return _read("openai", given, named)

    @staticmethod
    def from_anthropic(given: object = _NOTHING, /, **named: Any) -> Read:
        """From a request of messages; temperature keeps its value, from 0 to 1."""
        return _read("anthropic", given, named)

    @staticmethod
    def from_vllm(given: object = _NOTHING, /, **named: Any) -> Read:
        """From SamplingParams."""
        return _read("vllm", given, named)

    @staticmethod
    def from_llama_cpp(given: object = _NOTHING, /, **named: Any) -> Read:
        """From a request of llama.cpp's server."""
        return _read("llama_cpp", given, named)

    @staticmethod
    def from_ollama(given: object = _NOTHING, /, **named: Any) -> Read:
        """From ollama's options, or from a whole request that has them under "options"."""
        return _read("ollama", given, named)

    @staticmethod
    def from_transformers(given: object = _NOTHING, /, **named: Any) -> Read:
        """From a GenerationConfig."""
        return _read("transformers", given, named)

    def to_openai(self) -> Written:
        return _write("openai", self)

    def to_anthropic(self) -> Written:
        return _write("anthropic", self)

    def to_vllm(self) -> Written:
        return _write("vllm", self)

    def to_llama_cpp(self) -> Written:
        return _write("llama_cpp", self)

    def to_ollama(self) -> Written:
        return _write("ollama", self)

    def to_transformers(self) -> Written:
        return _write("transformers", self)


def _read(dialect: str, given: object, named: Mapping[str, Any]) -> Read:
    from unspool.mappings import DIALECTS
    from unspool.mappings.dialect import read

    if given is not _NOTHING and named:
        raise BadRequest(
            f"from_{dialect} was given {brief(given)} and beside it {', '.join(named)}; put all in one place",
            code="bad_params",
        )
    return read(DIALECTS[dialect], named if given is _NOTHING else given)


def _write(dialect: str, params: Any) -> Written:
    from unspool.mappings import DIALECTS
    from unspool.mappings.dialect import write

    return write(DIALECTS[dialect], params)
