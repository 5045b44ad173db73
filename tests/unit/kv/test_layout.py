"""Bytes of a cache, by formula."""

from __future__ import annotations

import pytest

from unspool.kv.layout import KvLayout, pages_for


def test_a_token_costs_k_and_v_of_every_layer_and_head():
    layout = KvLayout(n_layers=30, n_kv_heads=3, head_dim=64, page_size=32)
    assert layout.token_bytes == 2 * 30 * 3 * 64 * 2 == 23_040
    assert layout.page_bytes == 32 * 23_040
    assert KvLayout(30, 3, 64, 32, value_bytes=4).token_bytes == 46_080


@pytest.mark.parametrize(("n_tokens", "n_pages"), [(0, 0), (1, 1), (32, 1), (33, 2), (8192, 256)])
def test_pages_hold_tokens_rounded_up(n_tokens, n_pages):
    assert pages_for(n_tokens, 32) == n_pages
