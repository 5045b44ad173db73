"""From a graph and its weights to the registers, tiles and instructions of the C++ core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from unspool import _native
from unspool.errors import ModelFileError
from unspool.models.graph import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Graph,
    RmsNorm,
    Rope,
    Scale,
    SelectRows,
    SoftCap,
)
from unspool.models.weights import Tensor, WeightSource, dequantize
from unspool.models.weights.ggml_types import ENCODING_OF_TYPE
from unspool.models.weights.mapped_file import mapping_of
from unspool.runners.instructions import Instruction, Kind
from unspool.runners.lowering import Lowered, Products, lower
from unspool.runners.packed_size import packed_bytes

# The core knows encodings by their GGUF type numbers.
TYPE_NUMBERS = {encoding: number for number, encoding in ENCODING_OF_TYPE.items()}
_KINDS: Final[Mapping[type, Kind]] = MappingProxyType(
    {
        Embed: "embedding",
        RmsNorm: "norm",
        Rope: "rope",
        Attention: "attention",
        GatedActivation: "gate",
    }
)
_NONE = -1
_LOGITS = -2


class Builder:
    """Adds weights, registers and instructions to an engine, and tells what these are."""

    def __init__(self, engine: _native.Engine, graph: Graph, source: WeightSource) -> None:
        self.engine = engine
        self.source = source
        self.instructions, widths = lower(graph)
        self.registers = {
            name: engine.add_register(width) for name, width in widths.items() if name != "logits"
        }
        self.matrices: dict[tuple[str, tuple[int, int] | None], int] = {}
        self.vectors: dict[tuple[str, tuple[int, int] | None], int] = {}
        self.ropes: dict[tuple[tuple[float, ...], float], int] = {}
        self.selected = False
        self.told: list[Instruction] = []

    def build(self) -> None:
        for op in self.instructions:
            self._add(op)
        bad = self.engine.pack()  # all at once: threads wait for each other, and for the interpreter, once
        if bad >= 0:
            raise self._not_finite(next(name for (name, _), i in self.matrices.items() if i == bad))

    def _register(self, name: str) -> int:
        return _LOGITS if name == "logits" else self.registers[name]

    def _registers(self, names: Iterable[str]) -> Sequence[int]:
        return [self._register(name) for name in names]

    def _matrix(self, name: str, rows: tuple[int, int] | None = None) -> int:
        key = (name, rows)
        if key not in self.matrices:
            tensor = self.source.tensor(name)
            n, k = tensor.shape
            row_bytes = k // tensor.encoding.block_values * tensor.encoding.block_bytes
            start, stop = rows or (0, n)
            data = tensor.data[start * row_bytes : stop * row_bytes]
            number = TYPE_NUMBERS[tensor.encoding]
            is_mapped = mapping_of(data) is not None
            self.matrices[key] = self.engine.plan_matrix(number, data, stop - start, k, is_mapped)
        return self.matrices[key]

    def _vector(self, name: str, rows: tuple[int, int] | None = None) -> int:
        key = (name, rows)
        if key not in self.vectors:
            tensor: Tensor = self.source.tensor(name)
            start, stop = rows or (0, tensor.shape[0])
            values = np.ascontiguousarray(dequantize(tensor)[start:stop], dtype=np.float32)
            if not np.isfinite(values).all():
                raise self._not_finite(name)
            self.vectors[key] = self.engine.add_vector(values)
        return self.vectors[key]

    def _not_finite(self, name: str) -> ModelFileError:
        return ModelFileError(
            self.source.path, name, "holds infinities or what is not a number; fetch the model again"
        )

    def _rope(self, op: Rope) -> int:
        key = (op.inv_freq, op.magnitude)
        if key not in self.ropes:
            self.ropes[key] = self.engine.add_rope(np.asarray(op.inv_freq, np.float64), op.magnitude)
        return self.ropes[key]

    def _products(self, op: Products) -> None:
        """One instruction for the quantized matrices of `op` and one for the float ones."""
        for quantized in (True, False):
            parts = [
                (
                    self._matrix(part.linear.weight, part.linear.rows),
                    _NONE if part.linear.bias is None else self._vector(part.linear.bias, part.linear.rows),
                    self._register(part.linear.out),
                    part.accumulate,
                )
                for part in op.parts
                if (self.source.tensor(part.linear.weight).encoding.block_values > 1) == quantized
            ]
            if parts:
                self.engine.linear(self._register(op.x), parts, self.selected)
                self._tell_products(op, quantized)

    def _tell_products(self, op: Products, quantized: bool) -> None:
        names, n_bytes, macs = [], 0, 0
        for part in op.parts:
            tensor = self.source.tensor(part.linear.weight)
            if (tensor.encoding.block_values > 1) == quantized:
                start, stop = part.linear.rows or (0, tensor.shape[0])
                names.append(part.linear.weight)
                n_bytes += packed_bytes(tensor.encoding, stop - start, tensor.shape[1])
                macs += (stop - start) * tensor.shape[1]
        gives_logits = any(part.linear.out == "logits" for part in op.parts)
        kind: Kind = "output" if gives_logits else "products"
        self.told.append(Instruction(kind, ", ".join(names), n_bytes, macs))

    def _add(self, op: Lowered) -> None:
        engine, reg = self.engine, self._register
        if isinstance(op, Products):
            self._products(op)
        elif isinstance(op, Embed):
            engine.embed(reg(op.out), self._matrix(op.weight), op.scale)
        elif isinstance(op, RmsNorm):
            weight = self._vector(op.weight)
            group = op.group or self.source.tensor(op.weight).shape[0]
            engine.norm(reg(op.out), reg(op.x), weight, op.eps, group, self.selected)
        elif isinstance(op, Rope):
            engine.rope(reg(op.x), self._rope(op), op.head_dim, op.style == "interleaved")
        elif isinstance(op, Attention):
            out, q, k, v = self._registers((op.out, op.q, op.k, op.v))
            engine.attention(
                out, q, k, v, op.layer, op.n_heads, op.n_kv_heads, op.scale, op.softcap or 0.0, op.window or 0
            )
        elif isinstance(op, GatedActivation):
            out, gate, up = self._registers((op.out, op.gate, op.up))
            engine.gated(out, gate, up, op.kind == "gelu_tanh", self.selected)
        elif isinstance(op, Add):
            out, a, b = self._registers((op.out, op.a, op.b))
            engine.add(out, a, b, self.selected)
        elif isinstance(op, Scale):
            engine.scale(reg(op.out), reg(op.x), op.factor, self.selected)
        elif isinstance(op, SoftCap):
            engine.softcap(reg(op.out), reg(op.x), op.cap, self.selected)
        elif isinstance(op, SelectRows):
            engine.select(reg(op.out), reg(op.x))
            self.selected = True
        else:
            raise AssertionError(f"no native form of {op!r}: Linear is lowered to Products")
        if not isinstance(op, Products):
            self.told.append(
                Instruction(_KINDS.get(type(op), "other"), op.out if hasattr(op, "out") else op.x)
            )
