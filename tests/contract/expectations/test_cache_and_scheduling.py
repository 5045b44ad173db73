"""What users of engines expect of cached prefixes, of many requests at once and of cancelling.

Taken from their complaints.

What waits for parts that are not there yet: adapters (another adapter's pages must not be found; here salts
stand for them), images (ids of any width), caches elsewhere that requests wait for (here sessions).
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from runners_under_test import RUNNERS
from tiny_models import TinySpec, tiny_source
from toy_engine import LETTERS, ToyVocabulary

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.engine.task import Phase
from unspool.errors import CapacityError
from unspool.kv.pool import PagePool
from unspool.kv.prefix_tree import PrefixTree
from unspool.params import DecodingParams
from unspool.runners.toy import ToyRunner
from unspool.search.beam import Beam
from unspool.types import Request

GREEDY = DecodingParams(temperature=0, max_tokens=10, ignore_eos=True, logprobs=2)
SAMPLED = GREEDY.replace(temperature=1.4, seed=5, top_p=0.9)
LONG = (1, 2, 3, 4, 5, 6, 7, 1, 2, 2, 3)


def engine_of(*, n_pages=128, page_size=4, vocabulary=LETTERS, runner=None, **limits):
    runner = runner or ToyRunner(n_pages=n_pages, page_size=page_size, context_length=256)
    return Engine(runner, vocabulary, limits=Limits(**limits))


def hear(heard, events):
    for event in events:
        heard.setdefault((event.request_id, event.branch), []).append(event)


def told(events):
    """Everything of an answer but what it cost."""
    return (
        "".join(e.text for e in events),
        sum((e.token_ids for e in events), ()),
        sum((e.logprobs for e in events), ()),
        sum((e.prompt_logprobs for e in events), ()),
        events[-1].finish_reason,
        events[-1].stop,
    )


def run(engine, *requests):
    """All at once to their ends: what each branch told, in the order of requests and branches."""
    ids = [engine.add(request) for request in requests]
    heard: dict = {}
    while not engine.is_idle:
        hear(heard, engine.step())
        engine.check()
    return [told(heard[key]) for key in sorted(heard) if key[0] in ids]


# Prefix cache and blocks


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_an_answer_is_the_same_cold_warm_and_after_one_that_a_stop_string_ended(params):
    engine = engine_of()
    request = Request(LONG, params)
    cold = run(engine, request)
    assert run(engine, request) == cold
    stop = next(letter for letter in cold[0][0][3:] if letter in "ab ")
    stopped = run(engine, Request(LONG, params.replace(stop=stop)))
    assert stopped[0][4] == "stop"
    assert run(engine, request) == cold
    assert run(engine_of(), request) == cold


def test_a_prompt_gives_the_same_answer_however_often_and_beside_itself():
    engine = engine_of(n_pages=40)
    request = Request(LONG, SAMPLED)
    expected = run(engine_of(), request)
    for n_at_once in (1, 3, 8, 1):
        assert run(engine, *[request] * n_at_once) == expected * n_at_once


def test_a_prompt_is_scored_as_a_whole_though_it_is_known():
    engine = engine_of()
    plain, scored = Request(LONG, GREEDY), Request(LONG, GREEDY.replace(prompt_logprobs=3))
    cold = run(engine_of(), scored)
    run(engine, plain)
    assert run(engine, scored) == cold
    assert run(engine, scored, scored) == cold * 2
    assert len(cold[0][3]) == len(LONG) - 1


@pytest.mark.parametrize(("first", "second"), [*permutations([None, "None", "", "0", "own"], 2)])
def test_owners_whose_names_look_alike_share_nothing(first, second):
    engine = engine_of()
    run(engine, Request(LONG, GREEDY, salt=first))
    heard: dict = {}
    engine.add(Request(LONG, GREEDY, salt=second))
    engine.add(Request(LONG, GREEDY, use_cache=False))
    while not engine.is_idle:
        hear(heard, engine.step())
    assert [events[-1].usage.cached_tokens for events in heard.values()] == [0, 0]


def test_a_hundred_thousand_texts_of_wide_ids_are_told_apart():
    """Ids that are equal in their low 16 bits, and texts that are equal but for one id."""
    n = 317
    pool = PagePool(n + n * n)
    tree = PrefixTree(pool, page_size=1)
    expected = {}
    for i in range(n):
        (first,) = pool.take(1)
        place, _ = tree.insert((65536 * i + 7,), 1, (first,))
        for j in range(n):
            (page,) = pool.take(1)
            text = (65536 * i + 7, 65536 * j + 7)
            tree.insert(text, 2, (first, page), after=place)
            expected[text] = (first, page)
    assert len(expected) > 100_000
    assert all(tree.match(text, 2).pages == pages for text, pages in expected.items())
    assert tree.match((65536 * n + 7, 7), 2).n_tokens == 0


def test_a_request_that_bypasses_the_cache_does_not_fill_it_either():
    engine = engine_of()
    expected = run(engine_of(), Request(LONG, GREEDY))
    assert run(engine, Request(LONG, GREEDY, use_cache=False)) == expected
    assert (engine.storage.tree.n_pages, engine.pool.n_free) == (0, engine.pool.n_pages)
    heard: dict = {}
    engine.add(Request(LONG, GREEDY))
    while not engine.is_idle:
        hear(heard, engine.step())
    assert heard[1, 0][-1].usage.cached_tokens == 0


def test_pages_add_up_after_every_step_though_many_share_them():
    engine = engine_of(n_pages=30, n_tasks=6)
    requests = [Request(LONG[: 4 + i], SAMPLED.replace(seed=i), n=1 + i % 3) for i in range(8)]
    for request in requests:
        engine.add(request)
    n_shared = 0
    while not engine.is_idle:
        engine.step()
        engine.check()
        pool = engine.pool
        assert pool.n_free + pool.n_cached + pool.n_live == pool.n_pages
        n_shared = max(n_shared, *(pool.holders(page) for page in range(pool.n_pages)))
    assert n_shared > 3
    assert engine.pool.n_live == 0


WINDOWED = TinySpec("gemma3", n_layers=7, window=6, head_dim=32, vocab_size=96)
SIGNS = ToyVocabulary([b"</s>", *(bytes([33 + i]) for i in range(94)), b" "], ends=(0,))


@pytest.mark.parametrize("name", RUNNERS)
def test_every_repeat_is_the_same_bit_for_bit_where_layers_see_a_window(name):
    """Hits at a page's end and inside one, shorter and longer than the window, and after an eviction."""
    source = tiny_source(WINDOWED)

    def engine():
        return engine_of(
            runner=RUNNERS[name](source, n_pages=24, page_size=16), vocabulary=SIGNS, n_rows=24, n_tasks=4
        )

    rng = np.random.default_rng(0)
    text = rng.integers(1, 96, 60).tolist()
    warm = engine()
    for n in (3, 16, 17, 20, 33, 48, 60, 50):
        request = Request(tuple(text[:n]), SAMPLED.replace(max_tokens=8))
        cold = run(engine(), request)
        assert [run(warm, request) for _ in range(3)] == [cold] * 3
        assert run(warm, request, request) == cold * 2
    warm.storage.tree.evict(3)
    assert run(warm, request) == cold


# Scheduling, preemption, capacity, cancellation

STATEFUL = {
    "plain": GREEDY,
    "penalties and min_tokens": DecodingParams(
        temperature=1.3,
        seed=3,
        repetition_penalty=1.4,
        frequency_penalty=0.4,
        min_tokens=9,
        max_tokens=14,
        logprobs=1,
        stop=("ab",),
    ),
    "mirostat and DRY": DecodingParams(seed=4, mirostat=2, dry_multiplier=0.8, max_tokens=14, logprobs=1),
}


@pytest.mark.parametrize("params", STATEFUL.values(), ids=STATEFUL)
def test_a_pool_that_is_too_small_for_all_changes_no_answer(params):
    requests = [Request(LONG[i:] + LONG[:i], params, n=1 + i % 2) for i in range(6)]
    engine = engine_of(n_pages=15)
    assert run(engine, *requests) == run(engine_of(n_pages=500), *requests)
    assert engine.storage.journal.n_preemptions > 0


def test_who_was_put_back_keeps_its_place_and_ends_in_spite_of_newcomers():
    engine = engine_of(n_pages=12, n_tasks=4, n_preemptions=2)
    heard: dict = {}
    first = engine.add(Request(LONG, GREEDY.replace(max_tokens=25)))
    n_steps = n_newcomers = 0
    while (first, 0) not in heard or heard[first, 0][-1].finish_reason is None:
        if n_steps % 2 == 0:
            engine.add(Request((n_steps % 7 + 1,) * 7, GREEDY.replace(max_tokens=12)))
            n_newcomers += 1
        hear(heard, engine.step())
        n_steps += 1
        assert n_steps < 150
    assert n_newcomers > 10
    while not engine.is_idle:
        hear(heard, engine.step())
    usages = [events[-1].usage for events in heard.values()]
    assert max(usage.n_preempted for usage in usages) <= 2
    assert len(usages) == 1 + n_newcomers


def test_a_request_that_could_never_run_is_refused_at_once_and_the_others_go_on():
    engine = engine_of(n_pages=8)
    request = Request((1,) * 20, GREEDY)
    expected = run(engine_of(), request)
    heard: dict = {}
    engine.add(request)
    engine.step()
    with pytest.raises(CapacityError, match="may need 44 tokens and the KV cache holds 32"):
        engine.add(Request((1,) * 30, GREEDY.replace(max_tokens=12)))
    with pytest.raises(CapacityError, match="lower max_tokens or n"):
        engine.add(Request((1,) * 12, GREEDY.replace(max_tokens=9), n=4))
    engine.add(Request((1,) * 20, GREEDY))
    while not engine.is_idle:
        hear(heard, engine.step())
    assert len(heard) == 2
    assert told(heard[1, 0]) == expected[0]


@pytest.mark.parametrize("n_preemptions", [0, 1, 3])
def test_some_request_goes_on_in_every_step_though_all_want_the_same_prefix_and_too_many_pages(n_preemptions):
    engine = engine_of(n_pages=14, n_rows=9, n_tasks=5, n_preemptions=n_preemptions)
    for i in range(12):
        n = 1 + i % 3
        engine.add(Request(LONG[: 5 + i % 6], SAMPLED.replace(seed=i), n=n, use_cache=i % 4 > 0))
    journal = engine.storage.journal
    session = engine.sessions.read(LONG)
    while not engine.is_idle:
        before = journal.tokens_read + journal.tokens_reread + journal.tokens_decoded
        engine.step()
        assert journal.tokens_read + journal.tokens_reread + journal.tokens_decoded > before
        session = max(session, engine.sessions.read(LONG), key=lambda s: s.n_tokens)
        if session.n_tokens and engine.pool.n_available > 4:
            engine.sessions.restore(session)
        engine.check()


def test_no_newcomer_is_read_while_answers_that_share_a_prompt_wait_to_go_on():
    engine = engine_of(n_pages=20, n_rows=12, n_tasks=4)
    forked = engine.add(Request(LONG, SAMPLED, n=3))
    for _ in range(4):
        engine.step()
    engine._scheduler._preempt(engine._tasks[forked])
    newcomers = [engine.add(Request((7,) * 9, GREEDY)) for _ in range(3)]
    while engine._tasks[forked].phase is not Phase.DECODE:
        engine.step()
        assert all(
            engine._tasks[i].phase is Phase.WAITING or engine._tasks[forked].phase is not Phase.WAITING
            for i in newcomers
        )


def test_a_thousand_requests_cancelled_in_every_state_leave_no_page():
    rng = np.random.default_rng(1)
    engine = engine_of(n_pages=40, n_tasks=5, n_rows=15)
    in_flight: dict[int, int] = {}
    seen = dict.fromkeys(Phase, 0)
    n_cancelled = 0
    while n_cancelled < 1000:
        while len(in_flight) < 10:
            n = int(rng.integers(1, 4))
            prompt = LONG[: int(rng.integers(1, 12))]
            request_id = engine.add(Request(prompt * 3, SAMPLED.replace(max_tokens=6), n=n))
            in_flight[request_id] = int(rng.integers(6))
        if rng.random() < 0.2 and engine._scheduler._running:
            able = [t for t in engine._scheduler._running if not engine._scheduler._is_safe(t)]
            if able:
                engine._scheduler._preempt(able[0])
        for request_id, n_left in list(in_flight.items()):
            if request_id not in engine._tasks:
                del in_flight[request_id]
            elif n_left == 0:
                seen[engine._tasks[request_id].phase] += 1
                engine.cancel(request_id)
                n_cancelled += 1
                del in_flight[request_id]
            else:
                in_flight[request_id] -= 1
        engine.step()
    for request_id in in_flight:
        engine.cancel(request_id)
    engine.check()
    assert engine.is_idle
    assert min(seen[phase] for phase in (Phase.WAITING, Phase.PREFILL, Phase.DECODE)) > 20
    assert engine.pool.n_live == 0
    engine.storage.tree.clear()
    assert engine.pool.n_free == engine.pool.n_pages


@pytest.mark.parametrize("n_steps", range(6))
def test_cancelling_one_of_three_that_share_a_prefix_leaves_the_others_as_they_were(n_steps):
    requests = [Request((*LONG, i), SAMPLED.replace(seed=i)) for i in range(1, 4)]
    expected = run(engine_of(), *requests)
    engine = engine_of(n_rows=8, n_tasks=4)
    heard: dict = {}
    ids = [engine.add(request) for request in requests]
    for _ in range(n_steps):
        hear(heard, engine.step())
    hear(heard, engine.cancel(ids[0]))
    engine.storage.tree.clear()
    engine.add(Request((7,) * 30, GREEDY))  # which takes its pages
    while not engine.is_idle:
        hear(heard, engine.step())
        engine.check()
    assert [told(heard[i, 0]) for i in ids[1:]] == expected[1:]


class Copying(ToyRunner):
    """Counts the pages that are copied."""

    n_copied = 0

    def copy_page(self, source, target):
        self.n_copied += 1
        super().copy_page(source, target)


@pytest.mark.parametrize("n_prompt", [7, 8, 9])
def test_the_answers_to_a_prompt_share_its_whole_pages_and_copy_one_at_most(n_prompt):
    runner = Copying(n_pages=128, page_size=4)
    engine = engine_of(runner=runner)
    engine.add(Request(LONG[:n_prompt], SAMPLED, n=4))
    engine.step()
    n_partial = n_prompt % 4 > 0
    assert runner.n_copied == 3 * n_partial
    assert engine.pool.n_live == n_prompt // 4 + 4 * n_partial


def test_a_beam_copies_one_page_at_most_for_each_fork():
    runner = Copying(n_pages=128, page_size=4)
    engine = engine_of(runner=runner)
    engine.add(Request(LONG, GREEDY.replace(max_tokens=20), search=Beam(width=4)))
    n_forks = 0
    while not engine.is_idle:
        before, n_copied = set(engine._tasks[0].branches), runner.n_copied
        engine.step()
        engine.check()
        n_new = len(set(engine._tasks[0].branches) - before) if engine._tasks else 0
        assert runner.n_copied - n_copied <= n_new or not engine._tasks
        n_forks += n_new
    assert n_forks > 10
