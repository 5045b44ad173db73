"""The arrays of a plan, for a prompt chunk and a decoding row side by side."""

from __future__ import annotations

from toy_engine import make_engine

from unspool.params import DecodingParams
from unspool.types import Request


def test_a_plan_covers_each_share_and_asks_for_logits_where_a_token_is_chosen():
    engine = make_engine(n_rows=6, page_size=4)
    plans = []
    forward = engine.runner.forward
    engine.runner.forward = lambda plan: (plans.append(plan), forward(plan))[1]
    params = DecodingParams(temperature=0, max_tokens=3, ignore_eos=True)
    engine.add(Request((1, 2, 3), params))
    engine.step()
    engine.add(Request((4, 5, 6, 7, 1, 2, 3), params))
    engine.step()
    plan = plans[-1]
    assert plan.token_ids.tolist()[1:] == [4, 5, 6, 7, 1]
    assert plan.seq_start.tolist() == [0, 1, 6]
    assert plan.n_past.tolist() == [3, 0]
    assert plan.page_start.tolist() == [0, 1, 3]
    assert plan.page_table.tolist() == [0, 1, 2]
    assert plan.logits_rows.tolist() == [0]
    assert {array.dtype.name for array in (plan.token_ids, plan.page_table, plan.logits_rows)} == {"int32"}
    engine.step()
    assert plans[-1].token_ids.tolist()[1:] == [2, 3]
    assert plans[-1].n_past.tolist() == [4, 5]
    assert plans[-1].logits_rows.tolist() == [0, 2]
