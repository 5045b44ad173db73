"""Sessions through the front door: what a text or a conversation was read for is not read again."""

from __future__ import annotations

import asyncio

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, AsyncLLM, DecodingParams
from unspool.errors import BadRequest, ContextOverflow, SessionFileError

GREEDY = DecodingParams(max_tokens=8, temperature=0, ignore_eos=True, logprobs=2)
TEXT = "once upon a time there was a page of keys and values"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def llm(model):
    with LLM(model, threads=1) as llm:
        yield llm


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.session"


def exact(done):
    return done.token_ids, done.text, done.logprobs


def test_a_text_is_read_and_saved_and_another_model_in_memory_goes_on_bit_for_bit(model, llm, path):
    cold = llm.generate(TEXT + " and so", GREEDY)
    saved = llm.save_session(path, TEXT)
    assert saved.token_ids == tuple(llm.tokenize(TEXT))
    with LLM(model, threads=1, page_size=64) as other:
        assert other.load_session(path).token_ids == saved.token_ids
        warm = other.generate(TEXT + " and so", GREEDY)
        assert warm.usage.cached_tokens == len(saved.token_ids)
        assert exact(warm) == exact(cold)
        again = other.generate(TEXT, GREEDY)
        assert again.usage.cached_tokens == len(saved.token_ids) - 1
    assert exact(llm.generate(TEXT, GREEDY)) == exact(again)


def test_what_is_not_cached_is_read_first_unless_told_otherwise(model, llm, path):
    assert llm.save_session(path, TEXT, compute_missing=False).token_ids == ()
    done = llm.generate(TEXT, GREEDY)
    whole = [*llm.tokenize(TEXT), *done.token_ids]
    assert llm.save_session(path, whole, compute_missing=False).token_ids == tuple(whole[:-1])
    assert llm.save_session(path, whole).token_ids == tuple(whole)


def test_a_conversation_is_saved_to_the_end_of_the_answer(model, llm, path):
    messages = [{"role": "user", "content": "hello"}]
    answer = llm.chat(messages, GREEDY)
    messages.append({"role": "assistant", "content": answer.text})
    saved = llm.save_chat_session(path, messages, note={"messages": messages})
    assert llm.detokenize(saved.token_ids) == f"u:hello\na:{answer.text}"
    more = [*messages, {"role": "user", "content": "more"}]
    cold = llm.chat(more, GREEDY)
    with LLM(model, threads=1) as other:
        loaded = other.load_session(path)
        assert (loaded.note, loaded.n_bytes) == ({"messages": messages}, saved.n_bytes)
        warm = other.chat(more, GREEDY)
    assert warm.usage.cached_tokens >= len(saved.token_ids)
    assert exact(warm) == exact(cold)


def test_a_system_message_can_be_saved_for_all_conversations_that_begin_with_it(model, llm, path):
    system = {"role": "system", "content": "answer in one short sentence"}
    llm.save_chat_session(path, [system])
    with LLM(model, threads=1) as other:
        n_saved = len(other.load_session(path).token_ids)
        done = other.chat([system, {"role": "user", "content": "hi"}], GREEDY)
    assert done.usage.cached_tokens == n_saved - len("a:")


def test_a_text_that_fills_the_context_is_saved_but_for_its_last_token(llm, path):
    ids = [65 + i % 20 for i in range(llm.context_length)]
    assert len(llm.save_session(path, ids).token_ids) == llm.context_length - 1
    with pytest.raises(ContextOverflow):
        llm.save_session(path, [*ids, 65])


def test_owners_are_kept_apart(llm, path):
    llm.save_session(path, TEXT, cache_salt="a")
    assert llm.save_session(path, TEXT, cache_salt="b", compute_missing=False).token_ids == ()
    assert llm.save_session(path, TEXT, cache_salt="a", compute_missing=False).token_ids != ()
    llm.load_session(path, cache_salt="c")
    assert llm.save_session(path, TEXT, cache_salt="c", compute_missing=False).token_ids != ()


def test_no_text_is_a_session_of_nothing_but_its_note(llm, path):
    for prompt in ("", []):
        assert llm.save_session(path, prompt, note={"a": 1}).token_ids == ()
        assert llm.load_session(path).note == {"a": 1}


def test_refusals_are_typed_and_leave_the_model_usable(model, llm, path, tmp_path):
    llm.save_session(path, TEXT)
    for room in ({"context_length": 16}, {"kv_tokens": 32}):
        with LLM(model, threads=1, **room) as short, pytest.raises(ContextOverflow, match="has 52 tokens"):
            short.load_session(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SessionFileError, match="n_tokens"):
        llm.load_session(path)
    with pytest.raises(SessionFileError, match="cannot be written"):
        llm.save_session(tmp_path / "no" / "folder", TEXT)
    with pytest.raises(BadRequest):
        llm.save_session(path, [10**6])
    assert llm.generate(TEXT, GREEDY).usage.completion_tokens == 8


def test_an_asynchronous_door_saves_and_loads_too(model, llm, path):
    async def run():
        door = AsyncLLM.of(llm)
        saved = await door.save_session(path, TEXT, note={"a": 1})
        chat = await door.save_chat_session(f"{path}.chat", [{"role": "user", "content": "hi"}])
        async with AsyncLLM(model, threads=1) as other:
            loaded = await other.load_session(path)
            done = await other.generate(TEXT + ".", GREEDY)
        return saved, chat, loaded, done

    saved, chat, loaded, done = asyncio.run(run())
    assert loaded == saved
    assert llm.detokenize(chat.token_ids) == "u:hi\na:"
    assert done.usage.cached_tokens == len(saved.token_ids)


def test_requests_in_flight_go_on_while_a_session_is_saved_and_loaded(llm, path):
    expected = exact(llm.generate("x", DecodingParams(max_tokens=40, seed=3, ignore_eos=True, logprobs=2)))
    with llm.stream("x", DecodingParams(max_tokens=40, seed=3, ignore_eos=True, logprobs=2)) as events:
        first = next(events)
        llm.save_session(path, TEXT)
        llm.load_session(path)
        told = [first, *events]
    assert tuple(i for event in told for i in event.token_ids) == expected[0]
    assert tuple(entry for event in told for entry in event.logprobs) == expected[2]


@pytest.mark.parametrize("how", [{"notes": {}}, {"compute_missing": 1}, {"cache_salt": 3}])
def test_an_option_that_is_none_is_refused(llm, path, how):
    with pytest.raises(BadRequest, match=next(iter(how))):
        llm.save_session(path, TEXT, **how)
    assert not path.exists()
