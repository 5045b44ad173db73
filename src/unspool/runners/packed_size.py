"""How many bytes the native runner's weights take, from what a file says of its tensors: `plan_layout` in
csrc/repack.cpp and `piece_of` in csrc/packed.h, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from unspool.models.graph import Embed, Graph, Linear
from unspool.models.weights.base import Encoding, WeightSource

_TILE: Final = 16  # kTile: output rows
_GROUP: Final = 32  # kGroup: inputs
_PER_SUPER: Final = 8  # groups that share the upper scale of a two-level kind
_LINE: Final = 64  # bytes of a line of the cache


class _Packing(NamedTuple):
    bits: int  # of a quant
    group: int  # inputs per scale
    has_min: bool
    sub_bits: int = (
        0  # of a group's own scale and min together, below those of its 256 inputs; 0: it has both
    )


_PACKINGS: Final[Mapping[Encoding, _Packing]] = MappingProxyType(
    {
        Encoding.Q4_0: _Packing(4, 32, False),
        Encoding.Q4_1: _Packing(4, 32, True),
        Encoding.Q5_0: _Packing(5, 32, False),
        Encoding.Q5_1: _Packing(5, 32, True),
        Encoding.Q8_0: _Packing(8, 32, False),
        Encoding.IQ4_NL: _Packing(4, 32, False),
        Encoding.Q2_K: _Packing(2, 16, True, sub_bits=8),
        Encoding.Q3_K: _Packing(3, 16, False, sub_bits=8),
        Encoding.Q4_K: _Packing(4, 32, True, sub_bits=12),
        Encoding.Q5_K: _Packing(5, 32, True, sub_bits=12),
        Encoding.Q6_K: _Packing(6, 16, False, sub_bits=8),
        Encoding.IQ4_XS: _Packing(4, 32, False, sub_bits=8),
    }
)


def packed_bytes(encoding: Encoding, n_out: int, n_in: int) -> int:
    """Bytes of a packed (n_out, n_in) matrix: tiles of 16 outputs, in pieces that begin with their scales."""
    packing = _PACKINGS.get(encoding)
    if packing is None:  # floats stay as they are
        tile = _whole_lines(n_in * _TILE * encoding.block_bytes)
    else:
        groups = _PER_SUPER if packing.sub_bits else 1 if packing.has_min else 2  # of a piece
        n_groups, n_scales = -(-n_in // _GROUP), 1 if packing.sub_bits else groups
        sub_bytes = groups * (_GROUP // packing.group) * packing.sub_bits // 8
        scales = _whole_lines(_TILE * (2 * (1 + packing.has_min) * n_scales + sub_bytes))
        tile = -(-n_groups // groups) * scales + _TILE * n_groups * _GROUP * packing.bits // 8
    return -(-n_out // _TILE) * tile


def _whole_lines(n_bytes: int) -> int:
    return -(-n_bytes // _LINE) * _LINE


class StepBytes(NamedTuple):
    """Of the matrices that every step reads: all but an embedding of which it takes single rows."""

    file: int  # as stored
    loaded: int  # as packed, and as read once a step


def step_bytes(graph: Graph, source: WeightSource) -> StepBytes:
    """Bytes of the matrices that a step reads, in the file and as packed."""
    stored = packed = 0
    for name, rows in {(op.weight, op.rows) for op in graph.ops if isinstance(op, Linear)}:
        tensor = source.tensor(name)
        start, stop = rows or (0, tensor.shape[0])
        n_values = (stop - start) * tensor.shape[1]
        stored += n_values // tensor.encoding.block_values * tensor.encoding.block_bytes
        packed += packed_bytes(tensor.encoding, stop - start, tensor.shape[1])
    return StepBytes(stored, packed)


def weight_bytes(graph: Graph, source: WeightSource) -> int:
    """Bytes of all packed matrices of a network."""
    parts = {
        (op.weight, op.rows if isinstance(op, Linear) else None)
        for op in graph.ops
        if isinstance(op, (Embed, Linear))
    }
    total = 0
    for name, rows in parts:
        tensor = source.tensor(name)
        start, stop = rows or (0, tensor.shape[0])
        total += packed_bytes(tensor.encoding, stop - start, tensor.shape[1])
    return total
