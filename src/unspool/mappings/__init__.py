"""Other engines' names for decoding parameters, to ours and back; one dialect a file.

Reading gives the parameters together with what changed on the way: a value that means something else here,
a default of that engine's that differs from ours, a name that is about something other than decoding. The
parameters do what that engine would: they take its defaults and, where there is one, its preset of `order`.
What would change the text and has no counterpart is refused. Writing gives that engine's names together
with what it cannot say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unspool.mappings.anthropic import ANTHROPIC
from unspool.mappings.dialect import Change, Dialect
from unspool.mappings.llama_cpp import LLAMA_CPP
from unspool.mappings.ollama import OLLAMA
from unspool.mappings.openai import OPENAI
from unspool.mappings.transformers import TRANSFORMERS
from unspool.mappings.vllm import VLLM

DIALECTS: Final[Mapping[str, Dialect]] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "vllm": VLLM,
    "llama_cpp": LLAMA_CPP,
    "ollama": OLLAMA,
    "transformers": TRANSFORMERS,
}

__all__ = ["DIALECTS", "Change"]
