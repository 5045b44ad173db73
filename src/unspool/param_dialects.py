"""The from_* and to_* of DecodingParams: other engines' names, to ours and back.

Kept apart from the parameters themselves; each call opens its dialect in `unspool.mappings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspool.mappings import Change
    from unspool.params import DecodingParams

    Read = tuple[DecodingParams, tuple[Change, ...]]
    Written = tuple[dict[str, Any], tuple[Change, ...]]


class Dialects:
    """from_* take a mapping or an object with such names and give (parameters, what changed on the way).

    The parameters do what that engine would do, its defaults and its order included. What changed: values
    that mean something else here, defaults that were filled in, names that are about something other than
    decoding. BadRequest for unknown names, and for what would change the text and has no counterpart.

    to_* give (their names with values, what they cannot say).
    """

    __slots__ = ()

    @staticmethod
    def from_openai(given: object) -> Read:
        """From a request of chat or text completions."""
        return _read("openai", given)

    @staticmethod
    def from_anthropic(given: object) -> Read:
        """From a request of messages; temperature keeps its value, from 0 to 1."""
        return _read("anthropic", given)

    @staticmethod
    def from_vllm(given: object) -> Read:
        """From SamplingParams."""
        return _read("vllm", given)

    @staticmethod
    def from_llama_cpp(given: object) -> Read:
        """From a request of llama.cpp's server."""
        return _read("llama_cpp", given)

    @staticmethod
    def from_ollama(given: object) -> Read:
        """From ollama's options, or from a whole request that has them under "options"."""
        return _read("ollama", given)

    @staticmethod
    def from_transformers(given: object) -> Read:
        """From a GenerationConfig."""
        return _read("transformers", given)

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


def _read(dialect: str, given: object) -> Read:
    from unspool.mappings import DIALECTS
    from unspool.mappings.dialect import read

    return read(DIALECTS[dialect], given)


def _write(dialect: str, params: Any) -> Written:
    from unspool.mappings import DIALECTS
    from unspool.mappings.dialect import write

    return write(DIALECTS[dialect], params)
