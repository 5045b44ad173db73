"""Which rows run: decoding first, prompts in order of arrival with what is left."""

from __future__ import annotations

from toy_engine import make_engine

from unspool.params import DecodingParams
from unspool.types import Request

PARAMS = DecodingParams(temperature=0, max_tokens=9, ignore_eos=True)


def rows_of_each_step(engine):
    """{request_id: rows} of every step until the engine is idle."""
    seen = []
    plan = engine._scheduler.plan

    def spy():
        shares = plan()
        seen.append({share.task.request_id: share.n_rows for share in shares})
        return shares

    engine._scheduler.plan = spy
    while not engine.is_idle:
        engine.step()
    return seen


def test_a_long_prompt_is_read_beside_the_rows_that_decode():
    engine = make_engine(n_rows=8, n_pages=64, n_tasks=8)
    engine.add(Request((1, 2), PARAMS))
    engine.step()
    engine.add(Request((3,) * 20, PARAMS))
    seen = rows_of_each_step(engine)
    assert seen[:4] == [{0: 1, 1: 7}, {0: 1, 1: 7}, {0: 1, 1: 6}, {0: 1, 1: 1}]


def test_prompts_share_a_step_in_order_of_arrival():
    engine = make_engine(n_rows=8, n_pages=64, n_tasks=8)
    for n in (3, 4, 5):
        engine.add(Request((n,) * n, PARAMS))
    seen = rows_of_each_step(engine)
    assert seen[:3] == [{0: 3, 1: 4, 2: 1}, {0: 1, 1: 1, 2: 4}, {0: 1, 1: 1, 2: 1}]


def test_no_more_requests_run_than_are_allowed():
    engine = make_engine(n_rows=8, n_tasks=2, n_pages=64)
    for _ in range(4):
        engine.add(Request((1,), PARAMS))
    seen = rows_of_each_step(engine)
    assert max(map(len, seen)) == 2
    assert list(seen[0]) == [0, 1]
    assert list(seen[-1]) == [2, 3]


def test_a_prompt_goes_on_when_every_other_row_is_taken_but_one():
    engine = make_engine(n_rows=3, n_tasks=3, n_pages=64)
    for n in (1, 1, 4):
        engine.add(Request((1,) * n, PARAMS))
    seen = rows_of_each_step(engine)
    assert [step.get(2) for step in seen[:5]] == [1, 1, 1, 1, 1]
