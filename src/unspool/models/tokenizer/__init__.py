"""Text to token ids and back, built from what a model's files say about its vocabulary.

Read `tokenizer.py` for what a tokenizer promises, `gguf.py` and `tokenizer_json.py` for where it comes from.
"""

from __future__ import annotations

from unspool.errors import UnsupportedModel
from unspool.models.tokenizer.parts import TokenKind
from unspool.models.tokenizer.tokenizer import Tokenizer
from unspool.models.weights.base import WeightSource

__all__ = ["TokenKind", "Tokenizer", "load_tokenizer"]


def load_tokenizer(source: WeightSource) -> Tokenizer:
    """The tokenizer of an open model: GGUF metadata, or tokenizer.json beside the weights.

    Raises ModelFileError when the description is missing or broken, UnsupportedModel when it names an
    algorithm or a pre-tokenizer that is not known here.
    """
    if source.format == "gguf":
        from unspool.models.tokenizer.gguf import tokenizer_from_gguf

        return tokenizer_from_gguf(source.path, source.metadata)
    if source.format == "safetensors":
        from unspool.models.tokenizer.tokenizer_json import tokenizer_from_folder

        return tokenizer_from_folder(source.path, source.metadata)
    raise UnsupportedModel(
        f"{source.path}: no tokenizer for weights of format {source.format!r}; known: gguf, safetensors"
    )
