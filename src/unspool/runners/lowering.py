"""From a graph to the native core's instructions: what is fused, and nothing else.

    Linear x n, same input            -> one instruction over all their tiles (q, k and v; gate and up)
    Linear, then Add onto a residual  -> the product is added where it is stored
    SelectRows onto its own input     -> a register of its own: rows move while others are still read

The 8-bit form of a linear layer's input is made by the op that writes the input; the core works that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from unspool.light_dataclass import dataclass
from unspool.models.graph import Add, Graph, Linear, Op, SelectRows, reads, writes

# Fields of ops that name a register.
_REGISTER_FIELDS = frozenset({"out", "x", "q", "k", "v", "a", "b", "gate", "up"})


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix of a `Products` instruction."""

    linear: Linear
    accumulate: bool  # out += x @ w.T, in place of out =


@dataclass(frozen=True, slots=True)
class Products:
    """Linear layers that read the same register, run as one instruction."""

    x: str
    parts: tuple[Product, ...]


Lowered = Op | Products


def lower(graph: Graph) -> tuple[tuple[Lowered, ...], dict[str, int]]:
    """Instructions in order, and the width of every register they use."""
    widths = dict(graph.widths)
    ops = _own_selection(graph.ops, widths)
    return tuple(_merge(_fuse_residual(ops))), widths


def _own_selection(ops: Sequence[Op], widths: dict[str, int]) -> list[Op]:
    """Give a selection that writes the register it reads an output of its own, and rename what follows."""
    names: dict[str, str] = {}
    result: list[Op] = []
    for op in ops:
        op = _rename(op, names)
        if isinstance(op, SelectRows) and op.out == op.x:
            names[op.x] = f"{op.x} (wanted rows)"
            widths[names[op.x]] = widths[op.x]
            op = replace(op, out=names[op.x])
        result.append(op)
    return result


def _rename(op: Op, names: dict[str, str]) -> Op:
    if not names:
        return op
    values = {field.name: getattr(op, field.name) for field in fields(op) if field.name in _REGISTER_FIELDS}
    changes: dict[str, Any] = {field: names[value] for field, value in values.items() if value in names}
    return replace(op, **changes)


def _fuse_residual(ops: Sequence[Op]) -> list[Op | Product]:
    """Linear(out=t) directly followed by Add(out=h, h, t), with t read by nothing else, becomes h += x w."""
    result: list[Op | Product] = []
    index = 0
    while index < len(ops):
        op = ops[index]
        follower = ops[index + 1] if index + 1 < len(ops) else None
        if (
            isinstance(op, Linear)
            and isinstance(follower, Add)
            and _is_residual(op, follower, ops[index + 2 :])
        ):
            result.append(Product(replace(op, out=follower.out), accumulate=True))
            index += 2
            continue
        result.append(Product(op, accumulate=False) if isinstance(op, Linear) else op)
        index += 1
    return result


def _is_residual(linear: Linear, add: Add, rest: Sequence[Op]) -> bool:
    if linear.out not in (add.a, add.b) or add.out not in (add.a, add.b) or add.out in (linear.out, linear.x):
        return False
    for op in rest:
        if linear.out in reads(op):
            return False
        if writes(op) == linear.out:
            return True
    return True


def _merge(ops: Sequence[Op | Product]) -> list[Lowered]:
    result: list[Lowered] = []
    for op in ops:
        if not isinstance(op, Product):
            result.append(op)
            continue
        last = result[-1] if result else None
        if (
            isinstance(last, Products)
            and last.x == op.linear.x
            and all(part.linear.out not in (op.linear.x, op.linear.out) for part in last.parts)
        ):
            result[-1] = Products(last.x, (*last.parts, op))
        else:
            result.append(Products(op.linear.x, (op,)))
    return result
