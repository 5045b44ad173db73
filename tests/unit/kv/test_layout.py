"""Pages for tokens, rounded up."""

from __future__ import annotations

import pytest

from unspool.kv.layout import pages_for


@pytest.mark.parametrize(("n_tokens", "n_pages"), [(0, 0), (1, 1), (32, 1), (33, 2), (8192, 256)])
def test_pages_hold_tokens_rounded_up(n_tokens, n_pages):
    assert pages_for(n_tokens, 32) == n_pages
