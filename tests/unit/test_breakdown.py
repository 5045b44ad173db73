"""Where the time of a step goes: the figures add up, and what cannot be measured is refused."""

from __future__ import annotations

import statistics

import pytest
from tiny_llm import write_tiny_llm

from unspool.breakdown import Breakdown, KindTime, PassTime, measure
from unspool.errors import BadRequest
from unspool.runners.native import NativeRunner


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf")


def test_every_pass_has_its_kinds_and_their_shares_are_at_most_the_whole(path):
    found = measure(path, threads=1, rows=(1, 3), prompt=64, context=8, rounds=3)
    assert [each.name for each in found.passes] == ["decode 1", "decode 3", "prompt 64"]
    assert [each.n_rows for each in found.passes] == [1, 3, 64]
    assert found.read_gb_per_s > 0
    assert found.integer_gmac_per_s > 0
    for each in found.passes:
        kinds = {kind.kind: kind for kind in each.kinds}
        assert {"embedding", "norm", "products", "attention", "output"} <= set(kinds)
        assert "waiting" not in kinds or kinds["waiting"].share < 1
        assert kinds["products"].gb_per_s > 0
        assert kinds["norm"].gb_per_s is None
        assert each.tokens_per_s == pytest.approx(1e3 * each.n_rows / each.ms)


def test_of_one_pass_the_kinds_with_what_is_outside_of_them_are_the_whole(path):
    (one,) = measure(path, threads=1, rows=(3,), prompt=0, context=8, rounds=1).passes
    assert sum(kind.ms for kind in one.kinds) == pytest.approx(one.ms)


@pytest.mark.parametrize(("rounds", "n_tries"), [(1, 1), (3, 3), (5, 5), (6, 3), (20, 5)])
def test_the_limits_are_medians_of_what_was_measured_between_the_passes(path, monkeypatch, rounds, n_tries):
    rates = iter([4e9, 1e9, 3e9, 2e9, 5e9])
    tried = []

    def rate(runner):
        tried.append(next(rates))
        return tried[-1]

    monkeypatch.setattr(NativeRunner, "read_rate", rate)
    found = measure(path, threads=1, rows=(1,), prompt=0, context=8, rounds=rounds)
    assert len(tried) == n_tries
    assert found.read_gb_per_s == statistics.median(tried) / 1e9


def test_weights_are_read_once_a_pass_and_keys_and_values_once_a_sequence(path):
    one, three = measure(path, threads=1, rows=(1, 3), prompt=0, context=8, rounds=1).passes
    few, many = (measure(path, threads=1, rows=(1,), prompt=0, context=n, rounds=1).passes[0] for n in (8, 9))
    token_bytes = many.read_bytes - few.read_bytes
    assert token_bytes == 2 * 2 * 2 * 16 * 2  # K and V, layers, kv heads, values, bytes
    assert three.read_bytes - one.read_bytes == 2 * 9 * token_bytes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rows": (0,)}, "rows must be a whole number in"),
        ({"rows": (), "prompt": 0}, "nothing to measure"),
        ({"prompt": 1000}, "tokens, and the model's context is 128; give"),
        ({"context": 128}, "tokens, and the model's context is 128; give"),
        ({"rounds": 0}, "rounds must be a whole number in"),
        ({"threads": 0}, "threads must be"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_way_out(path, given, said):
    settings = {"rows": (1,), "prompt": 16, "context": 8, "rounds": 1} | given
    with pytest.raises(BadRequest, match=said):
        measure(path, **settings)


def broken_down(*, read_gb_per_s=10.0, load_average=0.0):
    kinds = (KindTime("output", 1.0, 1.0, 11.9, 5.0), KindTime("waiting", 0.0, 0.0, None, None))
    one = PassTime("decode 1", 1, 1.0, 1000.0, 1, 0.5, 0.5, kinds)
    return Breakdown("portable", 1, 1, read_gb_per_s, 10.0, (one,), load_average, 4)


def test_what_cannot_be_is_doubted():
    assert broken_down().doubts == ()
    assert broken_down(load_average=None).doubts == ()
    (above,) = broken_down(read_gb_per_s=9.0).doubts
    assert above.startswith("above what this machine does at most: output of decode 1; ")
    assert broken_down(read_gb_per_s=9.0).to_dict()["doubts"] == [above]


def test_a_busy_machine_is_doubted():
    (busy,) = broken_down(load_average=2.1).doubts
    assert busy.startswith("the load average was 2.1 on 4 processors before this began")
    assert broken_down(load_average=2.0).doubts == ()
