"""The fused pass against the stages, on each instruction set of this machine; what only it can get wrong."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from fused_agreement import case, difference
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_rows import wanting

from unspool import _native
from unspool.errors import MaskConflict, NoCandidate
from unspool.history import History
from unspool.logits import fused, pipeline
from unspool.logits.choose import choose
from unspool.logits.orders import PIPELINE
from unspool.logits.pipeline import process, process_by_stages
from unspool.params import DecodingParams
from unspool.rng import Noise
from unspool.rules import NO_RULES, Rules
from unspool.types import Processed, Row

ISAS = _native.instruction_sets()


def row(seed=0, n_tokens=5, branch=0, rules=NO_RULES, **params):
    return Row(DecodingParams(**params), seed, branch, range(n_tokens), n_tokens, rules)


def model_like(n_vocab, seed=0, n_rows=1):
    rng = np.random.default_rng(seed)
    z = (rng.normal(size=(n_rows, n_vocab)) * 2.5 - 5).astype(np.float32)
    z[:, rng.integers(0, n_vocab, 30)] += 8
    return z


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("part", range(4))
def test_the_fused_pass_chooses_and_keeps_what_the_stages_do(isa, part):
    # make test-agreement does the same on 100 000 rows and counts
    for number in range(600):
        one = case(np.random.default_rng((part, number)), largest=4000)
        assert difference(one, isa) is None, (part, number)


@settings(deadline=None, derandomize=True)  # one row in 100 000 may differ at a threshold
@given(st.integers(0, 2**32 - 1), st.sampled_from(ISAS))
def test_on_any_row_of_any_request_both_agree(seed, isa):
    assert difference(case(np.random.default_rng((99, seed)), largest=500), isa) is None


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n_vocab", [49_152, 151_936, 262_144])
def test_large_vocabularies_agree(isa, n_vocab):
    [z] = model_like(n_vocab, seed=n_vocab)
    asked = [
        {},
        {"temperature": 0.7},
        {"temperature": 0},
        {"top_p": 0.999, "temperature": 1.5},
        {"top_k": 3000, "min_p": 0.01},
        {"typical_p": 0.9},
        {"tfs_z": 0.95},
        {"dynatemp_min": 0.5, "dynatemp_max": 1.5, "top_n_sigma": 1.0},
        {"mirostat": 1, "mirostat_tau": 9.0},
    ]
    for seed, params in enumerate(asked):
        given_row = row(seed=seed, **params)
        [fast] = fused.process(z[None], wanting([given_row]), isa=isa)
        [slow] = process_by_stages(z[None], wanting([given_row]))
        assert fast.chosen.token_id == slow.chosen.token_id, params
        assert np.array_equal(fast.candidates.token_ids, slow.candidates.token_ids), params
        assert np.allclose(fast.candidates.logits, slow.candidates.logits, rtol=1e-12, atol=1e-12), params


def test_every_stage_has_its_line_in_a_program():
    assert {stage.name for stage in PIPELINE} == set(fused._LINES)


@pytest.mark.parametrize("isa", ISAS)
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**64 - 1), st.integers(0, 3), st.integers(1, 300))
def test_noise_is_the_noise_of_the_generator_digit_for_digit(isa, seed, branch, n_vocab):
    # All logits equal: the choice is the argmax of the noise alone.
    z = np.zeros((1, n_vocab), dtype=np.float32)
    [done] = fused.process(z, [row(seed=seed, branch=branch)], isa=isa)
    assert done.chosen.token_id == Noise(seed, branch, 5, "choose").gumbel(np.arange(n_vocab)).argmax()


@pytest.mark.parametrize("isa", ISAS)
def test_frequencies_of_a_large_vocabulary_follow_the_softmax(isa):
    # 20 000 candidates in five groups of equal logits; 4 degrees of freedom, above 37.3 once in 6 million
    group_mass = np.array([0.05, 0.1, 0.15, 0.3, 0.4])
    z = np.log(np.repeat(group_mass / 4000, 4000)).astype(np.float32)[None]
    n = 5000
    ids = [fused.process(z, [row(seed=3, n_tokens=i)], isa=isa)[0].chosen.token_id for i in range(n)]
    counts = np.bincount(np.array(ids) // 4000, minlength=5)
    assert ((counts - n * group_mass) ** 2 / (n * group_mass)).sum() < 37.3


@pytest.mark.parametrize("n_rows", [1, 2, 7, 64])
def test_a_row_in_a_batch_is_the_row_alone_bit_for_bit(n_rows):
    z = model_like(3000, n_rows=n_rows)
    rows = [row(seed=i, temperature=0.5 + i / 10, top_p=0.9, min_p=0.001) for i in range(n_rows)]
    together = fused.process(z, wanting(rows))
    for i, given_row in enumerate(rows):
        [alone] = fused.process(z[i : i + 1].copy(), wanting([given_row]))
        assert together[i].chosen == alone.chosen
        assert together[i].candidates.token_ids.tobytes() == alone.candidates.token_ids.tobytes()
        assert together[i].candidates.logits.tobytes() == alone.candidates.logits.tobytes()


def test_the_models_logits_are_as_before_afterwards():
    z = model_like(5000, n_rows=3)
    before = z.tobytes()
    bias = dict.fromkeys(range(0, 5000, 7), 3.0)
    rules = Rules(bias=tuple(bias.items()), banned_ids=frozenset(range(100, 300)))
    rows = [
        row(rules=rules, logit_bias=bias, repetition_penalty=1.3, xtc_probability=1.0, xtc_threshold=1e-6)
        for _ in range(3)
    ]
    assert None not in fused.process(z, rows)
    assert z.tobytes() == before


def test_the_stages_can_be_asked_for_instead(monkeypatch):
    z, rows = model_like(500, n_rows=2), [row(top_k=4), row(temperature=0)]
    fast = process(z, rows)
    monkeypatch.setattr(pipeline, "IS_FUSED", False)
    monkeypatch.setattr(fused, "process", None)
    assert [p.chosen for p in process(z, rows)] == [p.chosen for p in fast]


def test_padding_beyond_the_vocabulary_is_not_looked_at():
    z = model_like(1000, n_rows=2)
    padded = np.full((2, 1024), 1e9, dtype=np.float32)
    padded[:, :1000] = z
    rows = [row(seed=1), row(seed=2, top_k=5)]
    assert process(padded[:, :1000], rows) == process(z, rows)


def test_a_step_without_rows_has_no_results():
    assert process(np.zeros((0, 8), dtype=np.float32), []) == []


def test_logits_that_may_not_be_written_to_are_copied():
    z = model_like(1000)
    z.flags.writeable = False
    given_row = row(repetition_penalty=2.0)
    assert fused.process(z, [given_row])[0].chosen == process_by_stages(z, [given_row])[0].chosen


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_no_number_is_an_error_of_that_row_alone(bad):
    z = model_like(500, n_rows=3)
    z[1, 77] = bad
    first, second, third = process(z, [row(top_k=3), row(top_k=3), row(temperature=0)])
    assert isinstance(second, NoCandidate)
    assert isinstance(first, Processed)
    assert isinstance(third, Processed)


def test_masks_that_leave_nothing_are_the_conflict_that_the_stages_name():
    given_row = row(banned_token_ids=[0, 1, 2], rules=Rules(banned_ids=frozenset([0, 1, 2])))
    [error] = process(np.zeros((1, 3), dtype=np.float32), [given_row])
    assert isinstance(error, MaskConflict)
    assert "banned_token_ids" in str(error)


def test_candidates_are_given_to_the_rows_that_want_them():
    z = model_like(500, n_rows=2)
    plain, with_candidates = process(z, [row(top_k=3), *wanting([row(top_k=3)])])
    assert plain.candidates is None
    assert with_candidates.candidates.token_ids.size == 3


def test_mirostat_observes_through_a_whole_text_what_the_stages_observe():
    params = DecodingParams(mirostat=2, mirostat_tau=3.0)
    fast, slow, ids = History(params, Rules(), []), History(params, Rules(), []), []
    for position in range(40):
        z = model_like(2000, seed=position)
        [by_pass] = fused.process(z, [Row(params, 5, 0, ids, 0, Rules(), fast)])
        [by_stages] = process_by_stages(z, [Row(params, 5, 0, ids, 0, Rules(), slow)])
        assert by_pass.chosen.token_id == by_stages.chosen.token_id
        fast.accept(by_pass.chosen.token_id, by_pass.chosen.observed)
        slow.accept(by_stages.chosen.token_id, by_stages.chosen.observed)
        ids.append(by_pass.chosen.token_id)
    assert fast.running.value == pytest.approx(slow.running.value, abs=1e-9)


def test_noise_beside_a_huge_logit_is_not_lost():
    z = np.full((1, 600), 1e30, dtype=np.float32)
    chosen = {fused.process(z, [row(seed=seed)])[0].chosen.token_id for seed in range(50)}
    assert len(chosen) > 30
    assert chosen == {choose(z[0].astype(np.float64), row(seed=seed)) for seed in range(50)}


def test_callers_from_several_threads_do_not_disturb_each_other():
    z = [model_like(4000, seed=i, n_rows=6) for i in range(4)]
    rows = [row(seed=i, temperature=0.9, top_k=40) for i in range(6)]
    expected = [fused.process(each.copy(), rows) for each in z]
    wrong = []

    def work(i):
        wrong.extend(1 for _ in range(30) if fused.process(z[i], rows) != expected[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_threads_of_its_own():
    z, rows = model_like(4000, n_rows=8), [row(seed=i) for i in range(8)]
    expected = fused.process(z, rows)
    child = os.fork()
    if child == 0:
        os._exit(0 if fused.process(z, rows) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_program_is_made_once_for_a_request():
    params, rules = DecodingParams(top_k=3), Rules()
    assert fused.compiled(params, rules) is fused.compiled(params, rules)
    assert fused.compiled(params, Rules(end_ids=frozenset([1]))) is not fused.compiled(params, rules)


def test_programs_of_requests_long_gone_are_dropped():
    kept = [fused.compiled(DecodingParams(top_k=i + 1), Rules()) for i in range(fused._MOST_PROGRAMS + 5)]
    assert len(fused._compiled) == fused._MOST_PROGRAMS
    assert fused.compiled(kept[-1].params, kept[-1].rules) is kept[-1]


def test_an_instruction_set_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="sse9"):
        _native.Sampler(1, "sse9")


def line_with(banned_ids):
    return (_native.Program(False), 0, 0, 0, 0, 0.0, None, None, banned_ids, False)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.run(np.zeros((2, 8), dtype=np.float32), [None]),
        lambda s: s.run(np.zeros((1, 0), dtype=np.float32), [None]),
        lambda s: s.run(np.zeros((1, 8), dtype=np.float32), [(_native.Program(False), 1)]),
        lambda s: s.run(np.zeros((1, 16), dtype=np.float32)[:, ::2], [None]),
        lambda s: s.run(np.zeros((1, 8), dtype=np.float32), [line_with(np.zeros(2, dtype=np.int64))]),
        lambda s: s.run(np.zeros((1, 8), dtype=np.float32), [line_with(np.zeros(4, dtype=np.int32)[::2])]),
        lambda _: _native.Program(False).add(99, 0, 0, 0, False, [], []),
        lambda _: _native.Program(False).add(1, 0, 0, 0, False, [1], [1.0, 2.0]),
    ],
)
def test_a_call_that_breaks_the_rules_is_refused(call):
    with pytest.raises(ValueError):
        call(fused.sampler())
