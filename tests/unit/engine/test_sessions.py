"""Keys and values out of an engine and into another: found again, bit-exact, all or nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tiny_models import TinySpec, tiny_source
from toy_engine import LETTERS, Told, ToyVocabulary, drain

from unspool.engine.engine import Engine
from unspool.errors import BadRequest, CapacityError, ContextOverflow, SessionFileError
from unspool.kv.session_file import read_session
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.params import DecodingParams
from unspool.runners.native import NativeRunner
from unspool.runners.reference import ReferenceRunner
from unspool.runners.toy import ToyRunner
from unspool.types import Request

GREEDY = DecodingParams(temperature=0, max_tokens=6, ignore_eos=True, logprobs=2)
WORDS = ToyVocabulary([bytes([i]) for i in range(96)], ends=(0,))


def toy(page_size=4, n_pages=16, seed=0, **settings):
    runner = ToyRunner(n_pages=n_pages, page_size=page_size, sharpness=2.0 + seed)
    return Engine(runner, LETTERS, **settings)


def tiny(kind):
    def make(page_size=16, n_pages=8, seed=0, **settings):
        source = tiny_source(TinySpec(seed=seed))
        runner = kind(build_graph(read_config(source), source), source, n_pages=n_pages, page_size=page_size)
        return Engine(runner, WORDS, **settings)

    return make


@pytest.fixture(params=[toy, tiny(ReferenceRunner), tiny(NativeRunner)], ids=["toy", "reference", "native"])
def make(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.session"


def ask(engine, prompt, params=GREEDY, **request) -> Told:
    told = {engine.add(Request(tuple(prompt), params, **request)): Told()}
    drain(engine, told)
    (only,) = told.values()
    return only


def heard(engine, prompt, params=GREEDY):
    """All that can be told of an answer, to the last bit."""
    events = []
    engine.add(Request(tuple(prompt), params))
    while not engine.is_idle:
        events += engine.step()
    return [(event.text, event.token_ids, event.logprobs, event.finish_reason) for event in events]


TEXT = [1, 2, 3, 4, 5, 6, 7, 1, 3, 5, 7, 2, 4, 6, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("other_page", [False, True], ids=["same pages", "other pages"])
def test_a_loaded_text_goes_on_as_if_it_had_been_read_there(make, path, other_page):
    first = make()
    ask(first, TEXT)
    saved = first.sessions.save(path, TEXT)
    assert saved.n_tokens == len(TEXT)
    settings = {"page_size": first.runner.page_size * 2} if other_page else {}
    second = make(**settings)
    loaded = second.sessions.load(path)
    second.check()
    assert loaded.token_ids.tolist() == TEXT
    longer = [*TEXT, 6, 6, 6]
    expected = heard(make(**settings), longer)
    assert ask(second, longer).last.usage.cached_tokens == saved.n_tokens
    second.storage.tree.clear()
    second.sessions.load(path)
    assert heard(second, longer) == expected


def test_the_saved_text_itself_is_cached_but_for_the_token_whose_logits_are_wanted(make, path):
    first, second = make(), make()
    ask(first, TEXT)
    first.sessions.save(path, TEXT)
    second.sessions.load(path)
    assert ask(second, TEXT).last.usage.cached_tokens == len(TEXT) - 1


def test_an_answer_is_saved_but_for_its_last_token_which_was_never_read(make, path):
    engine, other = make(), make()
    done = ask(engine, TEXT)
    whole = [*TEXT, *done.token_ids]
    assert engine.sessions.save(path, whole).n_tokens == len(whole) - 1
    other.sessions.load(path)
    assert ask(other, whole).last.usage.cached_tokens == len(whole) - 1


def test_a_request_in_flight_can_be_saved(make, path):
    engine, other = make(), make()
    request_id = engine.add(Request(tuple(TEXT), GREEDY))
    told = {request_id: Told()}
    for _ in range(3):
        for event in engine.step():
            told[request_id].hear(event)
    session = engine.sessions.read_request(request_id)
    drain(engine, told)
    assert session.token_ids.tolist() == [*TEXT, *told[request_id].token_ids[:2]]
    other.sessions.restore(session)
    assert ask(other, [*session.token_ids.tolist(), 1]).last.usage.cached_tokens == session.n_tokens
    with pytest.raises(BadRequest, match="has no branch 0 in flight"):
        engine.sessions.read_request(request_id)


def test_what_is_already_known_is_not_taken_twice(make, path):
    engine = make()
    ask(engine, TEXT)
    engine.sessions.save(path, TEXT)
    before = engine.pool.n_cached
    engine.sessions.load(path)
    engine.check()
    assert engine.pool.n_cached == before


def test_a_text_of_which_the_beginning_is_known_takes_pages_for_the_rest_alone(make, path):
    first, second = make(), make()
    ask(first, TEXT)
    first.sessions.save(path, TEXT)
    page_size = second.runner.page_size
    ask(second, TEXT[: page_size + 1], dataclasses.replace(GREEDY, max_tokens=1))
    second.sessions.load(path)
    second.check()
    assert ask(second, [*TEXT, 1]).last.usage.cached_tokens == len(TEXT)


def test_a_text_that_is_unknown_is_saved_as_nothing(make, path):
    engine = make()
    assert engine.sessions.save(path, TEXT).n_tokens == 0
    assert make().sessions.load(path).n_tokens == 0


def test_pages_that_are_loaded_are_given_back_when_others_need_them(make, path):
    first, second = make(), make(n_pages=3 if make is not toy else 8)
    ask(first, TEXT)
    first.sessions.save(path, TEXT)
    second.sessions.load(path)
    other = list(reversed(TEXT))
    assert ask(second, other).result == ask(make(), other).result
    second.check()


def test_texts_of_different_owners_stay_apart(make, path):
    first, second = make(), make()
    ask(first, TEXT, salt="a")
    assert first.sessions.read(TEXT).n_tokens == 0
    assert first.sessions.save(path, TEXT, salt="a").n_tokens == len(TEXT)
    second.sessions.load(path, salt="b")
    assert ask(second, TEXT, salt="a").last.usage.cached_tokens == 0
    assert ask(second, TEXT, salt="b").last.usage.cached_tokens == len(TEXT) - 1


def test_other_weights_of_the_same_shape_are_refused_and_nothing_changes(make, path):
    first, second = make(), make(seed=1)
    ask(first, TEXT)
    first.sessions.save(path, TEXT)
    with pytest.raises(SessionFileError, match="with other weights is loaded") as caught:
        second.sessions.load(path)
    assert (caught.value.field, caught.value.code) == ("model", "session_mismatch")
    assert second.pool.n_free == second.pool.n_pages
    second.check()


def test_another_tokenizer_is_refused(path):
    first, second = toy(), Engine(ToyRunner(page_size=4), ToyVocabulary([*b"abcdefgh"[:0], *[b"x"] * 8]))
    ask(first, TEXT)
    first.sessions.save(path, TEXT)
    with pytest.raises(SessionFileError, match="tokenizer"):
        second.sessions.load(path)


@pytest.mark.parametrize("at", [0, 7, 15, len(TEXT) - 1])
def test_values_that_this_engine_would_not_compute_are_refused_and_nothing_stays(make, path, at):
    """Another build or instruction set rounds otherwise: its identity is the same, its bits are not."""
    first, second = make(), make()
    ask(first, TEXT)
    session = first.sessions.read(TEXT)
    page_size = first.runner.page_size
    at = min((at // page_size + 1) * page_size, len(TEXT)) - 1  # those that are computed again
    session.values[at, -1] ^= 1
    with pytest.raises(SessionFileError, match="save the session again") as caught:
        second.sessions.restore(session)
    assert caught.value.code == "session_stale"
    assert second.pool.n_free == second.pool.n_pages
    second.check()
    assert ask(second, TEXT).last.usage.cached_tokens == 0


def test_a_session_that_has_no_room_is_refused_and_running_requests_go_on(make, path):
    page_size = make().runner.page_size
    first, second = make(), make(n_pages=1)
    ask(first, TEXT)
    first.sessions.save(path, TEXT)
    with pytest.raises(CapacityError, match=f"has 19 tokens and the KV cache room for {page_size}"):
        second.sessions.load(path)
    busy = make(n_pages=-(-len(TEXT) // page_size))
    told = {busy.add(Request((3, 2, 1), GREEDY)): Told()}
    for event in busy.step():
        told[event.request_id].hear(event)
    with pytest.raises(CapacityError, match="KV pages are needed"):
        busy.sessions.load(path)
    busy.check()
    drain(busy, told)
    assert busy.sessions.load(path).n_tokens == len(TEXT)


def test_a_session_longer_than_the_context_is_refused(make, path):
    first, second = make(), make(context_length=len(TEXT) - 1)
    ask(first, TEXT)
    first.sessions.save(path, TEXT)
    with pytest.raises(ContextOverflow, match="raise context_length"):
        second.sessions.load(path)


def test_token_ids_outside_the_vocabulary_are_refused(make, path):
    engine = make()
    ask(engine, TEXT)
    session = engine.sessions.read(TEXT)
    for token_id in (-1, 96):
        session.token_ids[4] = token_id
        with pytest.raises(SessionFileError, match=f"token_ids: holds {token_id}, outside"):
            make().sessions.restore(session)


def test_values_of_another_width_are_refused(make):
    engine = make()
    ask(engine, TEXT)
    session = engine.sessions.read(TEXT)
    with pytest.raises(SessionFileError, match="token_bytes"):
        make().sessions.restore(dataclasses.replace(session, values=session.values[:, :-4].copy()))


def test_an_engine_that_keeps_no_texts_says_so(make, path):
    engine = make(prefix_cache=False)
    with pytest.raises(BadRequest, match="prefix_cache=True"):
        engine.sessions.read(TEXT)
    ask(first := make(), TEXT)
    first.sessions.save(path, TEXT)
    with pytest.raises(BadRequest, match="prefix_cache=True"):
        engine.sessions.load(path)


def test_the_note_travels_with_the_text(make, path):
    engine = make()
    ask(engine, TEXT)
    engine.sessions.save(path, TEXT, note={"messages": ["hello"]})
    assert make().sessions.load(path).note == {"messages": ["hello"]}


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "flipped"])
def test_a_broken_file_leaves_what_is_cached_as_it_is(make, path, damage):
    engine = make()
    ask(engine, TEXT)
    engine.sessions.save(path, TEXT)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "short": data[:-5], "flipped": data}[damage])
    before = sorted(engine.storage.tree.pages())
    with pytest.raises(SessionFileError):
        engine.sessions.load(path)
    assert sorted(engine.storage.tree.pages()) == before
    engine.check()
    assert ask(engine, TEXT).last.usage.cached_tokens == len(TEXT) - 1


def test_reference_and_native_values_are_not_each_others(path):
    reference, native = tiny(ReferenceRunner)(), tiny(NativeRunner)()
    ask(reference, TEXT)
    reference.sessions.save(path, TEXT)
    assert read_session(path).n_tokens == len(TEXT)
    with pytest.raises(SessionFileError, match="comes out otherwise here"):
        native.sessions.load(path)


def test_many_pages_are_checked_in_one_small_pass(path):
    first, second = toy(n_pages=64, page_size=2), toy(n_pages=64, page_size=2)
    text = np.random.default_rng(0).integers(1, 8, 60).tolist()
    ask(first, text, dataclasses.replace(GREEDY, max_tokens=1))
    first.sessions.save(path, text)
    second.sessions.load(path)
    assert second.runner.n_forwards == 1
    assert ask(second, text).last.usage.cached_tokens == 59
