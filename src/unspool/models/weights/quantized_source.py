"""A model whose float weights are quantized as it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from unspool.errors import BadRequest, brief, named
from unspool.models.weights.base import Encoding, Tensor, WeightSource

# Setting -> (matrices of the layers, embedding and output). The few values of each input that meet all
# tokens are worth 8 bits.
WEIGHTS: Final[Mapping[str, tuple[Encoding, Encoding]]] = MappingProxyType(
    {"q8": (Encoding.Q8_0, Encoding.Q8_0), "q4": (Encoding.Q4_1, Encoding.Q8_0)}
)
OUTER: Final = frozenset({"token_embd.weight", "output.weight"})


def check_weights(weights: Any) -> None:
    """BadRequest for a setting that is not there."""
    if weights is not None and (not isinstance(weights, str) or weights not in WEIGHTS):
        raise BadRequest(
            f"{named('weights')} must be one of {', '.join(WEIGHTS)}, got {brief(weights)}; leave it out to "
            "keep them as they are stored",
            code="bad_weights",
        )


class QuantizedSource:
    """A `WeightSource` over another one. Matrices are quantized when they are asked for, and kept until
    `forget`; vectors, and matrices whose rows are no multiple of 32, stay as they are.

    Raises BadRequest where the weights are quantized already: twice would lose more than either.
    """

    def __init__(
        self,
        source: WeightSource,
        weights: str,
        n_threads: int | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """`name` is what a refusal calls the model; its path when left out."""
        check_weights(weights)
        self.path: Path = source.path
        self.format = source.format
        self.metadata: Mapping[str, Any] = source.metadata
        self.stored = source
        self.weights = weights
        self._inner, self._outer = WEIGHTS[weights]
        self._n_threads = n_threads
        self._kept: dict[str, Tensor] = {}
        name = str(source.path) if name is None else name
        for tensor in source.names():
            if (stored := source.tensor(tensor).encoding).block_values > 1:
                raise BadRequest(
                    f"{name}: {tensor} is quantized already, as {stored.label}; leave {named('weights')} out",
                    code="bad_weights",
                )

    def names(self) -> Sequence[str]:
        return self.stored.names()

    def tensor(self, name: str) -> Tensor:
        if name in self._kept:
            return self._kept[name]
        tensor = self.stored.tensor(name)
        encoding = self._outer if name in OUTER else self._inner
        if len(tensor.shape) != 2 or tensor.shape[1] % encoding.block_values:
            return tensor
        from unspool.models.weights.quantize import quantize

        self._kept[name] = quantize(tensor, encoding, self._n_threads)
        return self._kept[name]

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    def forget(self) -> None:
        """Drop what was quantized: who has packed it needs it no more. Asked for again it is made again."""
        self._kept.clear()

    def close(self) -> None:
        self._kept.clear()
        self.stored.close()
