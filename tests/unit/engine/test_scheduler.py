"""Which rows run: decoding first, prompts in order of arrival with what is left."""

from __future__ import annotations

from toy_engine import make_engine

from unspool.params import DecodingParams
from unspool.types import Request

PARAMS = DecodingParams(temperature=0, max_tokens=9, ignore_eos=True)


def rows_of_each_step(engine):
    """{request_id: rows} of every step until the engine is idle."""
    seen = []
    plan = engine._next_shares

    def spy():
        shares = plan()
        seen.append({share.task.request_id: share.n_rows for share in shares})
        return shares

    engine._next_shares = spy
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


def test_a_short_prompt_does_not_wait_until_a_long_one_before_it_has_been_read():
    engine = make_engine(n_rows=8, n_pages=64, n_tasks=8)
    for n in (40, 9, 3):
        engine.add(Request((n % 7 + 1,) * n, PARAMS))
    assert rows_of_each_step(engine)[:4] == [
        {0: 4, 1: 1, 2: 3},  # half for the first, the rest for the shortest
        {0: 4, 1: 3, 2: 1},
        {0: 4, 1: 3, 2: 1},
        {0: 5, 1: 2, 2: 1},  # and what no one else wants for the first
    ]


def test_a_more_urgent_prompt_is_read_before_the_others():
    engine = make_engine(n_rows=8, n_pages=64, n_tasks=8)
    for n, priority in ((3, 0), (12, 1)):
        engine.add(Request((n % 7 + 1,) * n, PARAMS, priority=priority))
    assert rows_of_each_step(engine)[:2] == [{1: 8}, {1: 4, 0: 3}]


def test_a_prompt_whose_leader_is_read_leaves_its_turn_to_the_others():
    engine = make_engine(n_rows=8, n_pages=64, n_tasks=8, page_size=4)
    for ids in ((1,) * 20, (1,) * 16 + (2,) * 5, (3,) * 6):
        engine.add(Request(ids, PARAMS))
    seen = rows_of_each_step(engine)
    assert seen[0] == {0: 4, 2: 4}
    assert sum(step.get(1, 0) for step in seen) == 5 + 8  # its own tokens and its answer


class Watched(list):
    """A queue that counts how many of its members are looked at."""

    n_looks = 0

    def __iter__(self):
        for item in super().__iter__():
            self.n_looks += 1
            yield item

    def __getitem__(self, at):
        self.n_looks += 1
        return super().__getitem__(at)

    def __contains__(self, item):
        return any(other is item for other in self)


def test_the_work_of_a_step_does_not_grow_with_the_queue():
    looks = []
    for n_waiting in (10, 1000):
        engine = make_engine(n_rows=8, n_pages=64, n_tasks=2)
        for i in range(n_waiting):
            engine.add(Request((i % 7 + 1,) * 5, PARAMS.replace(deadline_s=1000.0)))
        queue = engine._scheduler._waiting = Watched(engine._scheduler._waiting)
        matches = []
        match = engine.storage.tree.match
        engine.storage.tree.match = lambda *a, found=matches, match=match: found.append(a) or match(*a)
        for _ in range(4):
            engine.step()
        for request_id in (5, 7):
            engine.set_priority(request_id, 1)
            engine.cancel(request_id)
        looks.append((queue.n_looks, len(matches)))
    assert looks[1][1] == looks[0][1]
    assert looks[1][0] <= looks[0][0] + 80  # a search in order looks at the logarithm of the queue


def test_deadlines_of_requests_that_have_ended_are_let_go_of():
    engine = make_engine()
    for _ in range(500):
        request_id = engine.add(Request((1,), PARAMS.replace(deadline_s=1e9)))
        engine.cancel(request_id)
        engine.step()
    assert len(engine._deadlines._heap) < 80
