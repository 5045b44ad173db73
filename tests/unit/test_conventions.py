"""The presets' conventions, and how a request's own words go before them."""

from __future__ import annotations

from unspool.conventions import (
    CONVENTIONS,
    Conventions,
    conventions_of,
    dry_window_of,
    penalty_window_of,
    scope_of,
)
from unspool.param_conflicts import ORDERS, PENALTIES, TEMPERATURES, stages_of
from unspool.params import DecodingParams


def test_every_order_has_its_conventions():
    assert set(CONVENTIONS) == set(ORDERS)
    for order in ORDERS:
        assert conventions_of(DecodingParams(order=order)) is CONVENTIONS[order]


def test_an_order_written_out_is_read_by_our_own_conventions():
    assert conventions_of(DecodingParams(order=["top_k", "temperature"])) == Conventions()


def test_an_order_written_out_after_a_presets_name_is_read_by_the_presets_conventions():
    params = DecodingParams(order=["llama.cpp", "temperature", "penalties", "top_k"], top_k=3)
    assert conventions_of(params) is CONVENTIONS["llama.cpp"]
    assert stages_of(params.order) == (*TEMPERATURES, *PENALTIES, "top_k")
    assert penalty_window_of(params) == 64


def test_penalties_look_at_what_the_preset_looks_at():
    scopes = {
        order: [
            scope_of(name, DecodingParams(order=order)) for name in ("repetition", "frequency", "presence")
        ]
        for order in ORDERS
    }
    assert scopes == {
        "unspool": ["all", "output", "output"],
        "vllm": ["all", "output", "output"],
        "transformers": ["all", "output", "output"],
        "llama.cpp": ["all", "all", "all"],
    }


def test_a_scope_or_window_of_the_request_goes_before_the_presets():
    params = DecodingParams(order="llama.cpp", penalty_scope="output", penalty_window=7, dry_window=9)
    assert [scope_of(name, params) for name in ("repetition", "presence")] == ["output", "output"]
    assert (penalty_window_of(params), dry_window_of(params)) == (7, 9)
    params = DecodingParams(order="llama.cpp")
    assert (penalty_window_of(params), dry_window_of(params)) == (64, 64)
    assert (penalty_window_of(DecodingParams()), dry_window_of(DecodingParams())) == (None, None)
