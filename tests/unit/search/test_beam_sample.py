"""Beam sampling on the toy engine, against what is drawn written out over whole sequences."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from chi_square import tail
from searching import PROMPT, answers_of, found, logprobs_after, params
from toy_engine import make_engine

from unspool.errors import BadRequest
from unspool.rng import Noise
from unspool.search.beam import Beam
from unspool.search.beam_sample import NOISE, BeamSample
from unspool.types import Request

ODDS = 1e-6  # of a false alarm, each test
EOS = 0


def draw(width, seed, n_max=2, n_best=None, **asked):
    search = BeamSample(width=width, n_best=n_best or width, alpha=0, early_stopping=True)
    return found(search, asked={"seed": seed, "max_tokens": n_max, **asked})


def fits(observed, expected, n):
    """Whether counts are draws from {outcome: probability}, outcomes of fewer than 8 put together."""
    often = [outcome for outcome in expected if n * expected[outcome] >= 8]
    counts = [observed[outcome] for outcome in often]
    wanted = [n * expected[outcome] for outcome in often]
    counts.append(n - sum(counts))
    wanted.append(n - sum(wanted))
    statistic = sum((c - w) ** 2 / w for c, w in zip(counts, wanted, strict=True))
    return tail(statistic, len(counts) - 1) > ODDS


def test_one_that_stops_at_its_first_end_is_sampling():
    probs, n = {}, 800
    for length in (1, 2):
        for ids in itertools.product(range(8), repeat=length):
            if EOS not in ids[:-1] and (ids[-1] == EOS or length == 2):
                probs[ids] = np.exp(sum(logprobs_after(PROMPT + ids[:i])[t] for i, t in enumerate(ids)))
    assert fits(Counter(draw(1, seed)[0][0] for seed in range(n)), probs, n)


def test_hypotheses_are_drawn_without_putting_any_back():
    probs = np.exp(logprobs_after(PROMPT))
    n = 1500
    pairs = {
        frozenset((a, b)): probs[a] * probs[b] * (1 / (1 - probs[a]) + 1 / (1 - probs[b]))
        for a, b in itertools.combinations(range(8), 2)
    }
    drawn = Counter(frozenset(ids[0] for ids, _ in draw(2, seed, n_max=1)) for seed in range(n))
    assert fits(drawn, pairs, n)


def written_out(width, seed, n_max):
    """The definition on lists: hypotheses (ids, log-probability, branch), those drawn first before others."""
    live, ended, n_born = [((), 0.0, 0)], [], 1
    for n in range(1, n_max + 1):
        grown = []
        for ids, total, branch in live:
            logprobs = logprobs_after(PROMPT + ids)
            g = Noise(seed, branch, len(PROMPT) + len(ids), NOISE).gumbel(np.arange(8))
            grown += [
                (-(total + logprobs[t] + g[t]), (*ids, t), total + logprobs[t], branch) for t in range(8)
            ]
        grown.sort()
        is_end = [ids[-1] == EOS or n == n_max for _, ids, _, _ in grown]
        for (_, ids, total, _), e in [*zip(grown, is_end, strict=True)][:width]:
            if e:
                ended.append((ids, total / n))
                n_born += 1
        ended = sorted(ended, key=lambda h: -h[1])[:width]
        chosen = [g for g, e in zip(grown, is_end, strict=True) if not e][:width]
        totals = sorted((total for _, _, total, _ in chosen), reverse=True)
        if not chosen or (len(ended) == width and totals[0] / n <= ended[-1][1]):
            break
        live, seen, fork = [], set(), n_born
        for _, ids, total, branch in chosen:
            if branch in seen:  # its first child is the branch itself
                branch, fork = fork, fork + 1
            seen.add(branch)
            live.append((ids, total, branch))
        n_born += len(live)
    return [(ids, pytest.approx(score)) for ids, score in ended]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_it_finds_what_the_definition_finds(width):
    for seed in range(12):
        answers = found(BeamSample(width=width, n_best=width), asked={"seed": seed, "max_tokens": 5})
        assert answers == written_out(width, seed, 5)


def test_a_score_is_the_sum_of_the_log_probabilities_that_temperature_and_cuts_leave():
    asked = params(temperature=0.7, top_k=3, seed=5, include_stop=True)
    for events in answers_of(BeamSample(width=4, n_best=4), asked=asked).values():
        entries = [entry for event in events for entry in event.logprobs]
        total = sum(entry.token.logprob_final for entry in entries)
        assert np.isfinite(total)
        assert events[-1].score == pytest.approx(total / len(entries))


def test_at_temperature_0_it_is_a_beam():
    drawn = found(BeamSample(width=3, n_best=3), asked={"temperature": 0, "seed": 1})
    assert drawn == found(Beam(width=3, n_best=3))


def test_the_same_seed_finds_the_same_beside_others_and_after_preemption():
    search = BeamSample(width=3, n_best=3)
    asked = params(seed=11, max_tokens=12, include_stop=True)
    alone = [e.score for events in answers_of(search, asked=asked).values() for e in events[-1:]]
    engine = make_engine(n_pages=20, page_size=2)
    ids = [engine.add(Request(PROMPT, asked, search=search)) for _ in range(3)]
    last: dict[int, list[float]] = {}
    n_preempted = 0
    while not engine.is_idle:
        for event in engine.step():
            if event.finish_reason is not None:
                last.setdefault(event.request_id, []).append(event.score)
                n_preempted += event.usage.n_preempted
        engine.check()
    assert n_preempted
    assert [last[i] for i in ids] == [alone] * 3


def test_other_seeds_find_others_and_the_seed_is_told():
    texts = {tuple(ids for ids, _ in draw(2, seed, n_max=6)) for seed in range(8)}
    assert len(texts) > 4
    events = answers_of(BeamSample(), asked=params())
    assert events[0][-1].seed is not None


def test_the_streamed_text_is_never_taken_back_and_joins_to_the_best_answer():
    for seed in range(6):
        asked = params(max_tokens=14, seed=seed, temperature=0.3)
        heard = answers_of(BeamSample(width=3, n_best=3), asked=asked)
        entries = [entry for event in heard[0] for entry in event.logprobs]
        assert [e.token.token_id for e in entries] == [i for event in heard[0] for i in event.token_ids]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width must be a whole number in [1, 256], got 0; 1 is sampling"),
        ({"n_best": 5}, "n_best must be a whole number in [1, 4], got 5"),
        ({"early_stopping": "now"}, "early_stopping must be"),
        ({"alpha": "x"}, "alpha must be a number"),
    ],
)
def test_a_mistake_is_told_with_value_and_range(changes, message):
    with pytest.raises(BadRequest) as caught:
        BeamSample(**changes)
    assert message in str(caught.value)
