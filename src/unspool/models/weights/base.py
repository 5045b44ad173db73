"""What a weights file gives, whatever its format."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unspool.light_dataclass import dataclass


class Encoding(enum.Enum):
    """How a tensor's values are stored: (name, values a block, bytes a block)."""

    F32 = ("F32", 1, 4)
    F16 = ("F16", 1, 2)
    BF16 = ("BF16", 1, 2)
    Q4_0 = ("Q4_0", 32, 18)
    Q4_1 = ("Q4_1", 32, 20)
    Q5_0 = ("Q5_0", 32, 22)
    Q5_1 = ("Q5_1", 32, 24)
    Q8_0 = ("Q8_0", 32, 34)
    Q2_K = ("Q2_K", 256, 84)
    Q3_K = ("Q3_K", 256, 110)
    Q4_K = ("Q4_K", 256, 144)
    Q5_K = ("Q5_K", 256, 176)
    Q6_K = ("Q6_K", 256, 210)
    IQ4_NL = ("IQ4_NL", 32, 18)
    IQ4_XS = ("IQ4_XS", 256, 136)

    def __init__(self, label: str, block_values: int, block_bytes: int) -> None:
        self.label = label
        self.block_values = block_values
        self.block_bytes = block_bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor, not yet decoded. Row-major; blocks run along the last axis."""

    name: str  # GGUF name, e.g. "blk.0.attn_q.weight"
    shape: tuple[int, ...]  # (n_out, n_in) for a linear weight, (width,) for a norm
    encoding: Encoding
    data: npt.NDArray[np.uint8]  # (n_bytes,) a view of the mapped file


class WeightSource(Protocol):
    """An open model: a GGUF file or a safetensors folder."""

    path: Path  # the GGUF file, or the folder
    format: str  # "gguf" or "safetensors"
    metadata: Mapping[str, Any]  # GGUF key-values; config.json, with "generation" (generation_config.json)

    def names(self) -> Sequence[str]: ...
    def tensor(self, name: str) -> Tensor:
        """Raises UnsupportedModel naming the file and tensor when it is not there."""
        ...

    def __contains__(self, name: object) -> bool: ...
    def close(self) -> None: ...
