"""Beam search on the toy engine, against a beam search written out over whole sequences."""

from __future__ import annotations

import itertools

import pytest
from searching import PROMPT, answers_of, found, logprobs_after, params
from toy_engine import LETTERS, make_engine

from unspool.errors import BadRequest
from unspool.kv.layout import pages_for
from unspool.search.beam import Beam
from unspool.search.hypotheses import pick
from unspool.search.length_norm import LengthNorm
from unspool.search.ranking import Continuation
from unspool.types import Request, Row

EOS = 0


def written_out(width, norm, early_stopping, n_max, n_best, n_eos=1):
    """Beam search as the definition has it, on lists."""
    live, ended = [((), 0.0)], []
    for n in range(1, n_max + 1):
        grown = [
            ((*ids, t), total + lp)
            for ids, total in live
            for t, lp in enumerate(logprobs_after(PROMPT + ids))
        ]
        grown.sort(key=lambda g: -g[1])
        is_end = [ids[-1] < n_eos or n == n_max for ids, _ in grown]
        if not (early_stopping is True and len(ended) == width):
            ended += [
                (ids, total / norm(n)) for (ids, total), e in zip(grown[:width], is_end, strict=False) if e
            ]
        ended = sorted(ended, key=lambda h: -h[1])[:width]
        live = [g for g, e in zip(grown, is_end, strict=True) if not e][:width]
        if not live:
            break
        if len(ended) == width:
            worst, best = ended[-1][1], live[0][1]
            if early_stopping is True:
                break
            if early_stopping == "exact":
                if all(max(t / norm(m) for m in range(n + 1, n_max + 1)) <= worst for _, t in live):
                    break
            else:
                longest = early_stopping == "never" and norm.alpha > 0
                if best / norm(n_max if longest else n) <= worst:
                    break
    return [(ids, pytest.approx(score)) for ids, score in ended[:n_best]]


@pytest.mark.parametrize("early_stopping", [True, False, "never", "exact"])
@pytest.mark.parametrize(
    ("kind", "alpha"), [("power", -1), ("power", 0), ("power", 1), ("power", 2), ("gnmt", 0.6)]
)
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_it_finds_what_the_definition_finds(width, kind, alpha, early_stopping):
    search = Beam(width=width, n_best=width, length_norm=kind, alpha=alpha, early_stopping=early_stopping)
    assert found(search) == written_out(width, LengthNorm(kind, alpha), early_stopping, 6, width)


def test_a_beam_as_wide_as_all_texts_is_exhaustive_search():
    n_max = 3
    every = [
        ids
        for n in range(1, n_max + 1)
        for ids in itertools.product(range(8), repeat=n)
        if EOS not in ids[:-1] and (ids[-1] == EOS or n == n_max)
    ]

    def score(ids):
        return sum(logprobs_after(PROMPT + ids[:i])[t] for i, t in enumerate(ids)) / len(ids)

    best = sorted(every, key=score, reverse=True)[:5]
    search = Beam(width=256, n_best=5, early_stopping="exact")
    settings = {"n_pages": 2048, "n_rows": 1024}
    assert [ids for ids, _ in found(search, asked={"max_tokens": n_max}, **settings)] == best


@pytest.mark.parametrize(("kind", "alpha"), [("power", 0), ("power", 2), ("gnmt", 0.6), ("none", 0)])
def test_of_all_texts_of_two_tokens_a_beam_of_v_to_the_l_gives_each_with_its_score(kind, alpha):
    norm = LengthNorm(kind, alpha)
    every = [(EOS,), *((a, b) for a in range(1, 8) for b in range(8))]
    scores = {
        ids: sum(logprobs_after(PROMPT + ids[:i])[t] for i, t in enumerate(ids)) / norm(len(ids))
        for ids in every
    }
    search = Beam(width=8**2, n_best=len(every), length_norm=kind, alpha=alpha, early_stopping="exact")
    answers = found(search, asked={"max_tokens": 2}, n_pages=512, n_rows=256)
    assert [ids for ids, _ in answers] == sorted(every, key=scores.get, reverse=True)
    assert dict(answers) == pytest.approx(scores)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("asked", [{}, {"repetition_penalty": 1.5}, {"stop": ["ab"]}, {"min_tokens": 4}])
def test_a_beam_of_one_is_greedy(asked, seed):
    prompt = tuple((i * 3 + seed) % 7 + 1 for i in range(5))
    greedy = answers_of(None, prompt, params(temperature=0, include_stop=True, **asked))[0]
    ((ids, _),) = found(Beam(width=1, early_stopping=True), prompt, asked)
    assert ids == tuple(i for event in greedy for i in event.token_ids)


def test_a_score_is_the_sum_of_the_log_probabilities_over_the_norm():
    for events in answers_of(Beam(width=4, n_best=4), asked=params(include_stop=True)).values():
        entries = [entry for event in events for entry in event.logprobs]
        total = sum(entry.token.logprob_final for entry in entries)
        assert events[-1].score == pytest.approx(total / len(entries))


def test_the_streamed_text_is_never_taken_back_and_joins_to_the_best_answer():
    heard = answers_of(Beam(width=3, n_best=3), asked=params(max_tokens=14))
    assert len(heard[0]) > 1, "some of it is told before the end"
    engine_text = "".join(event.text for event in heard[0])
    data = b"".join(LETTERS.token_bytes(i) for event in heard[0] for i in event.token_ids)
    assert engine_text == data.decode(errors="replace")
    assert [len(events) for rank, events in sorted(heard.items()) if rank] == [1, 1]


@pytest.mark.parametrize("page_size", [2, 4, 8])
def test_beams_copy_at_most_one_page_a_fork(page_size):
    engine = make_engine(n_pages=64, page_size=page_size)
    copies = []
    copy_page = engine.runner.copy_page
    engine.runner.copy_page = lambda *pages: (copies.append(pages), copy_page(*pages))
    engine.add(Request(PROMPT * 4, params(), search=Beam(width=4)))
    while not engine.is_idle:
        before = len(copies)
        engine.step()
        engine.check()
        assert len(copies) - before <= 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width must be a whole number in [1, 256], got 0; 1 is greedy search"),
        ({"width": 3, "n_best": 4}, "n_best must be a whole number in [1, 3], got 4"),
        ({"early_stopping": "maybe"}, "early_stopping must be True, False, 'never' or 'exact', got 'maybe'"),
        ({"early_stopping": 1}, "got 1"),
        ({"length_norm": "log"}, "length_norm must be one of 'gnmt', 'power', 'none', got 'log'"),
        ({"alpha": float("nan")}, "alpha must be a number in [-100, 100], got nan"),
    ],
)
def test_a_mistake_is_told_with_value_and_range(changes, message):
    with pytest.raises(BadRequest) as caught:
        Beam(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize("drawing", [{"temperature": 0.7}, {"top_k": 5}, {"mirostat": 2}])
def test_parameters_that_only_draws_give_a_meaning_to_are_refused(drawing):
    with pytest.raises(BadRequest, match="has no meaning in a beam search"):
        make_engine().add(Request(PROMPT, params(**drawing), search=Beam()))


def test_n_and_a_search_are_not_both_the_number_of_answers():
    with pytest.raises(BadRequest, match="n=2 and Beam both say how many answers there are"):
        make_engine().add(Request(PROMPT, params(), n=2, search=Beam()))


def test_the_last_tokens_are_looked_at_no_further_than_the_width():
    row = Row(params(), 0, 0, (1, 2), 1, n_new_max=2, ends_with=lambda token_id: True)
    looked_at = []

    def order():
        for token_id in range(1000):
            looked_at.append(token_id)
            yield Continuation(row, token_id, -token_id, -token_id)

    ending, going_on = pick(order(), 3)
    assert [c.token_id for c in ending] == looked_at == [0, 1, 2]
    assert not going_on


def test_beams_share_the_pages_of_a_long_prompt():
    n_prompt, n_new, page_size, width = 1000, 40, 16, 4
    engine = make_engine(n_pages=256, page_size=page_size, context_length=2048)
    asked = params(max_tokens=n_new, ignore_eos=True, logprobs=None)
    prompt = tuple(i * 5 % 7 + 1 for i in range(n_prompt))
    engine.add(Request(prompt, asked, search=Beam(width=width, n_best=width)))
    n_most = 0
    while not engine.is_idle:
        engine.step()
        engine.check()
        n_most = max(n_most, engine.pool.n_live)
    n_prompt_pages = n_prompt // page_size
    n_one, n_tail = pages_for(n_prompt + n_new, page_size), pages_for(n_new + n_prompt % page_size, page_size)
    assert n_prompt_pages < n_most <= n_prompt_pages + width * n_tail
    assert n_most < 1.15 * n_one + width * pages_for(n_new, page_size)
