"""A page of the native core, token by token and back: numbers change their places and nothing else.

In the core (KvStore in csrc/kv_store.h) a page is (L, 2, K) blocks of D' * S float16 values, D' being D
rounded up to 16: keys by dimension (D', S), values by token (S, D'). Outside it is (S, L, 2, K, D).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from unspool.runners.base import KvShape
from unspool.types import U8

Bits = npt.NDArray[np.uint16]  # of float16 values

LANES: Final = 16  # heads are padded to a multiple of it


def tokens_of_page(page: Bits, shape: KvShape, page_size: int) -> U8:
    """(S, token_bytes) of a page of the core."""
    keys, values = _views(page, shape, page_size)
    tokens = np.empty((page_size, shape.n_layers, 2, shape.n_kv_heads, shape.head_dim), np.uint16)
    tokens[:, :, 0] = keys
    tokens[:, :, 1] = values
    return tokens.reshape(page_size, -1).view(np.uint8)


def page_of_tokens(values: U8, shape: KvShape, page_size: int) -> Bits:
    """A page of the core, of (S, token_bytes); padding is zero, as the core leaves it."""
    assert values.shape == (page_size, shape.token_bytes), f"a page cannot be {values.shape}"
    tokens = np.ascontiguousarray(values).view(np.uint16)
    tokens = tokens.reshape(page_size, shape.n_layers, 2, shape.n_kv_heads, shape.head_dim)
    page = np.zeros(2 * shape.n_layers * shape.n_kv_heads * _padded(shape) * page_size, np.uint16)
    key_view, value_view = _views(page, shape, page_size)
    key_view[...] = tokens[:, :, 0]
    value_view[...] = tokens[:, :, 1]
    return page


def _padded(shape: KvShape) -> int:
    return -(-shape.head_dim // LANES) * LANES


def _views(page: Bits, shape: KvShape, page_size: int) -> tuple[Bits, Bits]:
    """The keys and the values of a page, each (S, L, K, D), as views."""
    n_layers, n_heads, padded = shape.n_layers, shape.n_kv_heads, _padded(shape)
    sides = page.reshape(n_layers, 2, n_heads, padded * page_size)
    keys = sides[:, 0].reshape(n_layers, n_heads, padded, page_size)
    values = sides[:, 1].reshape(n_layers, n_heads, page_size, padded)
    return keys[:, :, : shape.head_dim].transpose(3, 0, 1, 2), values[..., : shape.head_dim].transpose(
        2, 0, 1, 3
    )
