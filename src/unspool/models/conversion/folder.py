"""A Hugging Face folder in the words of GGUF: the same model, as its file would hold it.

Keys are written to bytes and read back before anything else is done with them. What is read has to be the
folder's network and the folder's tokenizer; a model that GGUF has no words for is refused, not bent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.conversion.network import architecture, check_same, network_values, rope_factors
from unspool.models.conversion.words import folder_parts, word_values
from unspool.models.conversion.words_check import check_same_words
from unspool.models.tokenizer.tokenizer_json import FILE
from unspool.models.weights.base import Encoding, Tensor
from unspool.models.weights.dequantize import dequantize
from unspool.models.weights.gguf_cursor import Cursor
from unspool.models.weights.gguf_metadata import read_metadata
from unspool.models.weights.gguf_writer import pair
from unspool.models.weights.safetensors_source import SafetensorsSource

_FACTORS = "rope_freqs.weight"
_TURNED = ("attn_q.weight", "attn_k.weight", "attn_q.bias", "attn_k.bias")


class ConvertedFolder:
    """A `WeightSource` with what a GGUF file of the folder would hold; `path` is the folder.

    Vectors are F32, as readers of GGUF want them. In families whose files pair neighbours in rope, rows of q
    and k change places.

    Raises the typed errors of the folder, and UnsupportedModel for what GGUF cannot say.
    """

    format = "gguf"

    def __init__(self, source: SafetensorsSource) -> None:
        self.path: Path = source.path
        self._source = source
        self._config = config = read_config(source)
        build_graph(config, source)  # every tensor is there in the right shape, and no other
        self._factors = rope_factors(config)
        self._turned: npt.NDArray[np.intp] | None = None
        parts = folder_parts(source, config.vocab_size)
        prefix = architecture(config)
        values = {
            "general.architecture": prefix,
            "general.name": self.path.resolve().name,
            **{f"{prefix}.{key}": value for key, value in network_values(config).items()},
            **word_values(source, parts),
        }
        self._pairs = {key: pair(key, value) for key, value in values.items()}
        self.metadata: Mapping[str, Any] = read_metadata(
            Cursor(self.path, b"".join(self._pairs.values())), len(self._pairs)
        )
        read = read_config(self)
        build_graph(read, self)
        check_same(read, config, self.path)
        check_same_words(parts, self.path / FILE, self.metadata)
        if read.rope_style == "interleaved":
            self._turned = self._places_of_rows()

    def pairs(self) -> dict[str, bytes]:
        """Each metadata key with the bytes of its pair."""
        return dict(self._pairs)

    def names(self) -> Sequence[str]:
        names = [
            name
            for name in self._source.names()
            if not (self._config.tied_output and name == "output.weight")  # its twin is the embedding
        ]
        return [*names, _FACTORS] if self._factors is not None else names

    def stored(self, name: str) -> Tensor:
        """The tensor of this name, shape and encoding, but with rows as they lie in the folder: nothing is
        copied for who looks at no value of a matrix."""
        if name == _FACTORS and self._factors is not None:
            return Tensor(name, self._factors.shape, Encoding.F32, self._factors.view(np.uint8))
        tensor = self._source.tensor(name)
        if len(tensor.shape) == 1 and tensor.encoding is not Encoding.F32:
            values = dequantize(tensor).astype("<f4", copy=False)
            return Tensor(name, tensor.shape, Encoding.F32, values.view(np.uint8))
        return tensor

    def tensor(self, name: str) -> Tensor:
        tensor = self.stored(name)
        if self._turned is not None and name.endswith(_TURNED):
            n_rows = tensor.shape[0]
            rows = tensor.data.reshape(n_rows, -1)[self._turned[:n_rows]]
            tensor = Tensor(name, tensor.shape, tensor.encoding, np.ascontiguousarray(rows).reshape(-1))
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def close(self) -> None:
        self._source.close()

    def _places_of_rows(self) -> npt.NDArray[np.intp]:
        """Which row of the folder comes where, for as many heads as there are: the two values of a pair lie
        half a rotation apart there, and side by side here. What is not rotated stays."""
        config = self._config
        half = len(config.rotaries[0].inv_freq)
        of_head = np.arange(config.head_dim)
        of_head[: 2 * half] = np.arange(2 * half).reshape(2, half).T.reshape(-1)
        return (np.arange(config.n_heads)[:, None] * config.head_dim + of_head).reshape(-1)
