"""From a path to everything that is known about a model, before anything computes with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unspool.background import Background
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.weights import WeightSource, open_weights
from unspool.models.weights.quantized_source import QuantizedSource
from unspool.once import once

if TYPE_CHECKING:
    from unspool.models.chat_template import ChatTemplate
    from unspool.models.tokenizer import Tokenizer


class LoadedModel:
    """An open model: its weights, what it computes, how its text is spelled and its chats are written.

    The tokenizer is built in a thread, because a runner packs weights in the meantime. With `weights`
    ("q8", "q4") float matrices are quantized, by so many threads. Raises the typed errors of the parts:
    ModelFileError, UnsupportedModel, ModelNotFound, and BadRequest for `weights` of a model that has
    quantized ones. `name` is what messages call it where the file is not at fault.
    """

    def __init__(
        self,
        path: str | Path,
        weights: str | None = None,
        threads: int | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.name = str(path) if name is None else name
        self.source: WeightSource = open_weights(self.path)
        try:
            self.config = read_config(self.source)
            self.graph = build_graph(self.config, self.source)
            if weights is not None:
                self.source = QuantizedSource(self.source, weights, threads, name=self.name)
            self._tokenizer = Background(self._load_tokenizer)
        except BaseException:
            self.source.close()
            raise

    def _load_tokenizer(self) -> Tokenizer:
        from unspool.models.tokenizer import load_tokenizer

        return load_tokenizer(self.source)

    @once
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer.result()

    @once
    def chat_template(self) -> ChatTemplate:
        """Raises TemplateError when the model has none or it does not parse."""
        from unspool.models.chat_template import ChatTemplate

        return ChatTemplate.from_source(self.source, self.tokenizer)

    def forget_quantized(self) -> None:
        """For a runner that has packed the weights: drop what was quantized for it."""
        if isinstance(self.source, QuantizedSource):
            self.source.forget()

    def close(self) -> None:
        """Close the weights; idempotent. A runner that reads them must be closed before."""
        self._tokenizer.wait()
        self.source.close()
