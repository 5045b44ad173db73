"""Which model this is: a name to show, and a digest that other weights of the same shape do not have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from unspool.light_dataclass import dataclass
from unspool.models.graph import Graph
from unspool.models.weights.base import WeightSource
from unspool.models.weights.mapped_file import release_pages
from unspool.models.weights.quantized_source import QuantizedSource

PIECE_BYTES: Final = 4096
N_PIECES: Final = 16  # of a larger tensor; a smaller one is read whole


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What a cache of keys and values belongs to."""

    name: str  # for messages; renaming a file changes no model
    sha256: str


def identify(graph: Graph, source: WeightSource) -> ModelIdentity:
    """The identity of an open model, in milliseconds and not in the time that reading all of it takes.

    The digest is over the network as it is computed (shapes, rope frequencies, windows, scales), the
    tensor table, and of each tensor 64 KiB, spread evenly over it: training moves every tensor it trains
    nearly everywhere. Metadata that changes no logit (a licence, a chat template) is left out. Weights that
    are quantized as they are loaded follow from those in the file and the setting.
    """
    if isinstance(source, QuantizedSource):
        stored = identify(graph, source.stored)
        return ModelIdentity(
            stored.name, hashlib.sha256(f"{stored.sha256} {source.weights}".encode()).hexdigest()
        )
    digest = hashlib.sha256(repr((graph, sorted(source.names()))).encode())
    for name in sorted(source.names()):
        tensor = source.tensor(name)
        digest.update(repr((tensor.shape, tensor.encoding.label, tensor.data.nbytes)).encode())
        for piece in _pieces(tensor.data):
            digest.update(piece.data)
        release_pages(tensor.data)
    return ModelIdentity(source.path.stem, digest.hexdigest())


def _pieces(data: npt.NDArray[np.uint8]) -> Iterator[npt.NDArray[np.uint8]]:
    if data.size <= PIECE_BYTES * N_PIECES:
        yield np.ascontiguousarray(data)
        return
    for start in np.linspace(0, data.size - PIECE_BYTES, N_PIECES, dtype=np.int64).tolist():
        yield np.ascontiguousarray(data[start : start + PIECE_BYTES])
