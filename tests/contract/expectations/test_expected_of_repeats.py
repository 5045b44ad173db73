"""What users of engines expect of seeds, of temperature 0 and of batches, from their complaints.

Several answers to one request (n > 1) wait for the searches that write them; what makes their streams differ
is the branch, which is tested here. The same tokens with and without drafts wait for speculative decoding.
"""

from __future__ import annotations

import numpy as np
from toy_engine import alone, make_engine, run

from unspool.logits.choose import choose
from unspool.params import DecodingParams
from unspool.types import Row

GREEDY = DecodingParams(temperature=0, max_tokens=12, ignore_eos=True)
SAMPLED = DecodingParams(
    temperature=1.3, top_p=0.95, frequency_penalty=0.3, max_tokens=12, ignore_eos=True, seed=11, logprobs=2
)
OTHERS = [
    ((3,), SAMPLED.replace(seed=1)),
    ((5, 5), GREEDY),
    ((7, 1, 2), SAMPLED.replace(mirostat=2, top_p=1)),
]


def test_temperature_0_gives_the_same_text_alone_in_a_batch_and_at_every_place_in_it():
    expected = alone([1, 2, 3], GREEDY.replace(seed=4)).result
    for place in range(4):
        requests = [*OTHERS[:place], ((1, 2, 3), GREEDY), *OTHERS[place:]]
        assert run(make_engine(n_pages=64), requests)[place].result == expected


def test_a_seed_gives_the_same_text_alone_in_a_batch_and_at_every_place_in_it():
    expected = alone([1, 2, 3], SAMPLED).result
    for place in range(4):
        requests = [*OTHERS[:place], ((1, 2, 3), SAMPLED), *OTHERS[place:]]
        assert run(make_engine(n_pages=64), requests)[place].result == expected


def test_log_probabilities_are_bitwise_the_same_in_every_repeat_and_at_every_occupancy():
    def logprobs(n_others, n_tasks):
        engine = make_engine(n_pages=256, n_tasks=n_tasks)
        seen = []
        step = engine.step
        engine.step = lambda: [seen.append(e) or e for e in step()]
        run(
            engine,
            [((1, 2, 3), SAMPLED)] + [((i % 7 + 1, 2), SAMPLED.replace(seed=i)) for i in range(n_others)],
        )
        return [entry for event in seen if event.request_id == 0 for entry in event.logprobs]

    first = logprobs(0, 1)
    assert len(first) == 12
    for n_others, n_tasks in [(44, 64), (44, 8), (44, 64), (7, 2)]:
        assert logprobs(n_others, n_tasks) == first


def test_another_seed_gives_another_text_and_the_same_seed_the_same():
    texts = [alone([1, 2, 3], SAMPLED.replace(seed=seed)).token_ids for seed in (1, 2, 3, 1, 2, 3)]
    assert texts[:3] == texts[3:]
    assert len(set(texts)) == 3


def test_two_requests_without_a_seed_differ_and_each_can_be_repeated_with_the_seed_it_reports():
    params = SAMPLED.replace(seed=None)
    told = run(make_engine(), [((1, 2, 3), params), ((1, 2, 3), params)])
    assert told[0].last.seed != told[1].last.seed
    for each in told:
        assert alone([1, 2, 3], SAMPLED.replace(seed=each.last.seed)).result == each.result


def test_the_branches_of_a_request_draw_different_streams_each_repeatable():
    z = np.zeros(1000)

    def stream(branch, seed=3):
        return [choose(z, Row(SAMPLED, seed, branch, [0] * n, 0)) for n in range(20)]

    streams = [stream(branch) for branch in range(16)]
    assert len({tuple(s) for s in streams}) == 16
    assert streams == [stream(branch) for branch in range(16)]
    # Independent: two of 16 streams of 20 draws among 1000 agree at a place 2.4 times on average, and more
    # than 12 times with probability below 1e-5; the draws are fixed, so this holds for good.
    agreements = sum(
        a == b for i in range(16) for j in range(i) for a, b in zip(streams[i], streams[j], strict=True)
    )
    assert agreements <= 12


def test_a_seed_at_temperature_0_is_said_to_be_of_no_use_and_none_is_reported():
    params = GREEDY.replace(seed=7)
    assert params.unused() == ("seed",)
    told = alone([1, 2], params)
    assert told.last.seed is None
    assert told.result == alone([1, 2], GREEDY).result


def test_every_parameter_that_cannot_matter_is_said_to():
    assert GREEDY.replace(top_k=40, min_p=0.1).unused() == ("top_k", "min_p")
    assert SAMPLED.replace(dry_base=2, xtc_threshold=0.2).unused() == ("xtc_threshold", "dry_base")
