"""The blocking front door, on a tiny model from a file: text in, text out, and every refusal."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest
from tiny_llm import END_ID, write_tiny_llm

import unspool
from unspool import LLM, Completion, DecodingParams, Limits
from unspool.errors import BadRequest, CapacityError, ContextOverflow, ModelNotFound, TemplateError
from unspool.runners.toy import ToyRunner

PARAMS = DecodingParams(max_tokens=12, seed=5, ignore_eos=True)
GREEDY = DecodingParams(max_tokens=12, temperature=0, ignore_eos=True)
PROMPTS = ["hello", "once upon", "世界 {}", "x"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def llm(model):
    with LLM(model, threads=1) as llm:
        yield llm


@pytest.fixture(autouse=True)
def nothing_stays_behind(request):
    """After each test the engine of the shared model is idle and its pool adds up."""
    yield
    if "llm" in request.fixturenames:
        engine = request.getfixturevalue("llm")._engine
        request.getfixturevalue("llm")._worker.call(engine.check)  # after all that was asked of it before
        assert engine.is_idle


def test_a_prompt_gives_a_completion_with_all_that_is_known_about_it(llm):
    done = llm.generate("hello", PARAMS)
    assert isinstance(done, Completion)
    assert str(done) == done.text == llm.detokenize(done.token_ids)
    assert (len(done.token_ids), done.finish_reason, done.stop, done.seed) == (12, "length", None, 5)
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (5, 12)
    assert done.usage.ttft_ms > 0
    assert done.params is PARAMS


def test_the_default_parameters_draw_a_seed_and_report_it(llm):
    done = llm.generate("hello")
    assert done.params == DecodingParams()
    again = llm.generate("hello", DecodingParams(seed=done.seed))
    assert again.token_ids == done.token_ids


def test_the_siblings_of_a_token_are_told(llm):
    assert llm.siblings(ord("a")) == (ord("A"),)
    assert llm.siblings(ord("!")) == llm.siblings(END_ID) == ()
    with pytest.raises(BadRequest, match="siblings holds the token id 99999; this model's ids are"):
        llm.siblings(99999)


def test_text_and_its_token_ids_give_the_same_answer(llm):
    expected = llm.generate("hello", PARAMS).token_ids
    assert llm.generate(llm.tokenize("hello"), PARAMS).token_ids == expected
    assert llm.generate(np.array(llm.tokenize("hello")), PARAMS).token_ids == expected
    assert llm.generate(tuple(llm.tokenize("hello")), PARAMS).token_ids == expected


def test_a_batch_gives_each_prompt_the_answer_it_gets_alone(llm):
    many = llm.generate(PROMPTS, PARAMS)
    assert [done.token_ids for done in many] == [llm.generate(p, PARAMS).token_ids for p in PROMPTS]
    as_ids = llm.generate([llm.tokenize(p) for p in PROMPTS], PARAMS)
    assert [done.token_ids for done in as_ids] == [done.token_ids for done in many]
    assert llm.generate([], PARAMS) == []


def test_a_batch_may_have_parameters_for_each_prompt(llm):
    params = [PARAMS, GREEDY, PARAMS.replace(max_tokens=3), PARAMS.replace(seed=9)]
    many = llm.generate(PROMPTS, params)
    assert [done.params for done in many] == params
    assert [done.text for done in many] == [
        llm.generate(p, q).text for p, q in zip(PROMPTS, params, strict=True)
    ]
    with pytest.raises(BadRequest, match="4 prompts have 2 params"):
        llm.generate(PROMPTS, params[:2])


@pytest.mark.parametrize("settings", [{"runner": "reference"}, {"page_size": 16}, {"limits": Limits(3, 2)}])
def test_runner_page_size_and_limits_change_no_greedy_token(llm, model, settings):
    with LLM(model, **settings) as other:
        for done, expected in zip(
            other.generate(PROMPTS, GREEDY), llm.generate(PROMPTS, GREEDY), strict=True
        ):
            assert done.token_ids == expected.token_ids


def test_a_stream_joins_to_the_completion(llm):
    params = PARAMS.replace(max_tokens=40)
    expected = llm.generate("hello", params)
    events = list(llm.stream("hello", params))
    assert "".join(event.text for event in events) == expected.text
    assert tuple(i for event in events for i in event.token_ids) == expected.token_ids
    assert [event.finish_reason for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1].finish_reason == "length"
    for name in ("prompt_tokens", "completion_tokens", "decoded_tokens"):
        assert getattr(events[-1].usage, name) == getattr(expected.usage, name)


def test_a_stop_string_cuts_text_ids_and_usage(llm):
    free = llm.generate("hello", GREEDY)
    stop = next(character for character in free.text if character.isascii())
    done = llm.generate("hello", GREEDY.replace(stop=stop))
    assert (done.finish_reason, done.stop) == ("stop", stop)
    assert done.text == free.text[: free.text.index(stop)]
    assert done.usage.completion_tokens == len(done.token_ids) < 12


def test_the_end_token_ends_the_text_and_is_named(llm):
    # nearly uniform over 258 ids: about every third text ends before the context does
    hot = [DecodingParams(temperature=100, max_tokens=None, seed=seed) for seed in range(16)]
    done = llm.generate(["hello"] * len(hot), hot)
    assert {(d.finish_reason, d.stop) for d in done} == {("stop", END_ID), ("length", None)}
    assert all(END_ID not in d.token_ids for d in done)
    assert all(d.usage.prompt_tokens + d.usage.completion_tokens == 128 for d in done if d.stop is None)


def test_streams_interleave_without_touching_each_other(llm):
    params = [PARAMS.replace(seed=seed) for seed in range(3)]
    streams = [llm.stream("hello", p) for p in params]
    told = ["", "", ""]
    for _ in range(12):
        for i, stream in enumerate(streams):
            told[i] += next(stream, None).text if i != 1 or len(told[1]) < 99 else ""
    assert told == [llm.generate("hello", p).text for p in params]
    for stream in streams:
        stream.close()


def test_a_stream_that_is_closed_or_dropped_frees_its_pages(llm, monkeypatch):
    forward, may_go, n_calls = llm.runner.forward, threading.Event(), []

    def held(plan):
        n_calls.append(plan)
        assert len(n_calls) < 3 or may_go.wait(30)
        return forward(plan)

    monkeypatch.setattr(llm.runner, "forward", held)
    with closing(llm.stream("hello", PARAMS)) as stream:
        next(stream)
        assert llm._engine.pool.n_live > 0
        may_go.set()
    assert llm._engine.pool.n_live == 0
    with llm.stream("hello", PARAMS) as stream:
        next(stream)
    assert list(stream) == []
    for _ in llm.stream("hello", PARAMS):
        break
    gc.collect()
    llm.generate("x", GREEDY)
    assert llm._engine.is_idle


def interrupt(llm: LLM) -> None:
    """As a terminal does it, on the worker's thread: the main thread is woken, and has its requests ended."""
    os.kill(os.getpid(), signal.SIGINT)
    pause = threading.Event()
    for _ in range(500):  # or what is left of them may be over by then
        if llm._worker._thread.commands.qsize():
            return
        pause.wait(0.002)


def test_an_interrupt_cancels_the_request_and_leaves_the_model_usable(llm, monkeypatch):
    expected = llm.generate("hello", GREEDY).token_ids
    forward = llm.runner.forward
    n_calls = []

    def interrupted(plan):
        n_calls.append(plan)
        if len(n_calls) == 4:
            interrupt(llm)
        return forward(plan)

    monkeypatch.setattr(llm.runner, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        llm.generate(["hello", "other"], GREEDY.replace(max_tokens=100))
    assert 4 <= len(n_calls) < 100
    assert llm._worker.call(lambda: llm._engine.is_idle)  # who was still opening them has not waited
    llm._engine.check()
    n_calls.clear()
    with pytest.raises(KeyboardInterrupt):
        list(llm.stream("hello", GREEDY.replace(max_tokens=100)))
    gc.collect()
    assert llm._worker.call(lambda: llm._engine.is_idle)
    monkeypatch.undo()
    assert llm.generate("hello", GREEDY).token_ids == expected


def test_an_interrupt_of_one_stream_spares_the_other(llm, monkeypatch):
    forward = llm.runner.forward
    n_calls = []

    def interrupted(plan):
        n_calls.append(plan)
        if len(n_calls) == 3:
            interrupt(llm)
        return forward(plan)

    second = llm.stream("other", GREEDY)
    monkeypatch.setattr(llm.runner, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(llm.stream("hello", GREEDY.replace(max_tokens=100)))
    assert "".join(event.text for event in second) == llm.generate("other", GREEDY).text


def test_a_runner_that_fails_frees_everything_and_raises(llm, monkeypatch):
    monkeypatch.setattr(llm.runner, "forward", lambda plan: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        llm.generate(PROMPTS, GREEDY)


def test_an_error_inside_a_request_is_handed_out_and_raised(llm, monkeypatch):
    forward = llm.runner.forward
    monkeypatch.setattr(llm.runner, "forward", lambda plan: forward(plan) * np.float32(np.nan))
    stream = llm.stream("hello", GREEDY)
    event = next(stream)
    assert (event.finish_reason, event.error.code) == ("error", "no_candidate")
    with pytest.raises(unspool.UnspoolError, match="no token can be chosen at position 5"):
        next(stream)
    assert list(stream) == []
    with pytest.raises(unspool.UnspoolError, match="no token can be chosen"):
        llm.generate("hello", GREEDY)


def test_threads_take_turns(llm):
    expected = [llm.generate(p, PARAMS).text for p in PROMPTS]
    told = [None] * len(PROMPTS)

    def work(i):
        told[i] = llm.generate(PROMPTS[i], PARAMS).text

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == expected


def test_an_empty_prompt_starts_from_the_begin_token_or_is_refused(llm, monkeypatch):
    for empty in ("", [[]], [""]):
        with pytest.raises(
            BadRequest, match="the prompt is empty and this model has no begin token"
        ) as caught:
            llm.generate(empty, GREEDY)
        assert caught.value.code == "empty_prompt"
    monkeypatch.setattr(llm.tokenizer, "bos_id", END_ID)
    assert llm.generate("", GREEDY).token_ids == llm.generate([END_ID], GREEDY).token_ids


@pytest.mark.parametrize(
    "prompt",
    [None, 7, b"bytes", {"a": 1}, [1, "a"], [1, 2.5], [True], ["a", 3], [[1], None], [b"x"], iter([1])],
)
def test_what_is_no_prompt_is_refused(llm, prompt):
    with pytest.raises(BadRequest, match="a prompt") as caught:
        llm.generate(prompt, GREEDY)
    assert caught.value.code == "bad_prompt"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ("abc", "must be names with values"),
        ({1: 2}, "must be names with values"),
        ({"tools": []}, "holds 'tools'"),
        ({"messages": []}, "holds 'messages'"),
        ({"parse_special": True}, "holds 'parse_special'"),
    ],
)
def test_template_variables_cannot_take_the_place_of_arguments(llm, variables, words):
    hello = [{"role": "user", "content": "hello"}]
    for call in (llm.chat, llm.stream_chat):
        with pytest.raises(BadRequest, match=words):
            call(hello, GREEDY, template_variables=variables)


def test_only_text_is_tokenized(llm):
    for text in (None, b"hello", 5):
        with pytest.raises(BadRequest, match="tokenize takes a string"):
            llm.tokenize(text)


@pytest.mark.parametrize("name", [None, 5, b"smollm2-135m"])
def test_a_model_is_a_name_or_a_path(name):
    with pytest.raises(BadRequest, match="model must be a name or a path"):
        LLM(name)


@pytest.mark.parametrize("limits", [{"n_rows": "a"}, {"n_rows": 10.5}, {"n_tasks": True}, {"n_rows": None}])
def test_limits_are_whole_numbers(limits):
    with pytest.raises(BadRequest, match="n_tasks must be a whole number in"):
        Limits(**limits)


@pytest.mark.parametrize("params", [{"temperature": 0}, 0.5, "greedy"])
def test_what_are_no_parameters_is_refused(llm, params):
    for call in (llm.generate, llm.stream):
        with pytest.raises(BadRequest, match=r"params must be DecodingParams, got .*from_dict"):
            call("hello", params)


def test_a_request_that_cannot_run_refuses_the_whole_batch_before_anything_runs(llm, monkeypatch):
    monkeypatch.setattr(llm.runner, "forward", lambda plan: 1 / 0)
    with pytest.raises(ContextOverflow, match="prompt has 128 tokens and the context 128"):
        llm.generate(["hello", "x" * 128], GREEDY)
    with pytest.raises(BadRequest, match="prompt holds the token id 258"):
        llm.generate([[1], [258]], GREEDY)


def test_stats_say_what_the_engine_has_done(model):
    with LLM(model, threads=1) as llm:
        before = llm.stats()
        done = llm.generate(PROMPTS, GREEDY)
        after = llm.stats()
    assert (before.n_added, before.n_steps) == (0, 0)
    assert (after.n_added, after.n_running, after.n_waiting, after.n_pages_live) == (4, 0, 0, 0)
    assert after.tokens_decoded == sum(one.usage.completion_tokens for one in done)
    assert after.tokens_read + after.tokens_found == sum(one.usage.prompt_tokens for one in done)
    assert 0 < after.overhead < 1
    assert all(one.usage.inter_token.n == 11 for one in done)


def test_a_loaded_model_is_told_to_the_log(model, caplog):
    with caplog.at_level("INFO", logger="unspool"), LLM(model, kv_tokens=64, threads=1) as llm:
        kv_bytes = llm.runner.kv_bytes
    (told,) = [r.unspool for r in caplog.records if r.unspool["event"] == "model.loaded"]
    assert told.pop("load_s") > 0
    assert told == {
        "event": "model.loaded",
        "path": str(model),
        "architecture": "llama",
        "runner": "native",
        "kv_tokens": 64,
        "kv_bytes": kv_bytes,
        "page_size": 32,
    }


def test_context_and_cache_are_as_large_as_asked(model):
    with LLM(model, context_length=10, kv_tokens=12, page_size=16) as small:
        assert small.context_length == 10
        assert small.runner.n_pages == 1
        assert len(small.generate("hello", GREEDY).token_ids) == 5
    small = LLM(model, context_length=128, kv_tokens=64)
    with small, pytest.raises(CapacityError, match="the KV cache holds 64"):
        small.generate("x" * 60, GREEDY)
    with LLM(model, kv_tokens=64) as small:
        assert small.context_length == 64
        with pytest.raises(ContextOverflow, match="the context 64"):
            small.generate("x" * 64, GREEDY)
    with LLM(model) as whole:
        assert whole.runner.n_pages * 32 == 16384  # sixteen answers of the usual length to one question


def test_a_cache_may_be_sized_in_bytes_or_as_a_part_of_what_is_free(model, monkeypatch):
    with LLM(model, kv_tokens=128) as four_pages:
        page_bytes = four_pages.runner.kv_bytes // 4
        weights = model.stat().st_size
    with LLM(model, kv_memory=3 * page_bytes + 5) as sized:
        assert (sized.runner.n_pages, sized.context_length) == (3, 96)
    monkeypatch.setattr("unspool.memory.free_bytes", lambda: weights + 10 * page_bytes)
    for part in (0.5, "50%"):
        with LLM(model, kv_memory=part) as sized:
            assert 5 <= sized.runner.n_pages <= 6, "half of ten pages; the file has a header too"
    with pytest.raises(CapacityError, match=r"is 100 B, and one page of 32 tokens takes .*; give more"):
        LLM(model, kv_memory="100B")
    monkeypatch.setattr("unspool.memory.free_bytes", lambda: None)
    with pytest.raises(BadRequest, match="this system does not say how much"):
        LLM(model, kv_memory=0.5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kv_memory": "lots"}, r"kv_memory must be bytes with a unit .* got 'lots'"),
        ({"kv_memory": 1.5}, r"kv_memory must be bytes .* at most 100%\), got 1.5"),
        ({"kv_memory": True}, "kv_memory must be bytes"),
        ({"kv_memory": "2GiB", "kv_tokens": 64}, "kv_tokens=64 and kv_memory='2GiB' both size the KV cache"),
        ({"threads": 0}, r"threads must be a whole number in \[1, 256\], got 0"),
        ({"threads": True}, "threads must be a whole number"),
        ({"context_length": -1}, "context_length must be a whole number"),
        ({"context_length": 129}, r"context_length must be in \[1, 128\]"),
        ({"limits": 5}, "limits must be Limits, got 5"),
        ({"context_length": 10**20}, r"context_length must be in \[1, 128\]"),
        ({"kv_tokens": 10**20}, "kv_tokens must be at most 536870912 with pages of 32"),
        ({"page_size": True}, "page_size must be a power of two, got True"),
        ({"kv_tokens": 1.5}, "kv_tokens must be a whole number"),
        ({"page_size": 24}, "page_size must be a power of two, got 24"),
        ({"page_size": None}, "page_size must be a power of two, got None"),
        ({"runner": "cuda"}, "runner must be one of native, reference, got 'cuda'"),
        ({"runner": "reference", "threads": 2}, "the reference runner has no threads"),
    ],
)
def test_settings_without_a_meaning_are_refused(model, settings, words):
    with pytest.raises(BadRequest, match=words):
        LLM(model, **settings)


def test_a_cache_past_all_memory_is_refused_in_one_line(model, monkeypatch):
    def no_memory(*_args, **_settings):
        raise MemoryError

    monkeypatch.setattr("unspool.runners.native.NativeRunner", no_memory)
    with pytest.raises(CapacityError, match=r"KV cache of 500000000 tokens takes [\d.]+ GB beside"):
        LLM(model, kv_tokens=500_000_000)


def test_a_context_past_the_memory_is_cut_to_what_fits(model, monkeypatch):
    monkeypatch.setattr("unspool.loading.MIN_KV_TOKENS", 64)
    monkeypatch.setattr("unspool.memory.total_bytes", lambda: 0)
    with LLM(model) as cut:
        assert cut.context_length == 64
        assert cut.runner.n_pages == 2
        assert cut.generate("hello", DecodingParams(temperature=0, max_tokens=None)).finish_reason in (
            "stop",
            "length",
        )
    with LLM(model, context_length=100) as asked:
        assert asked.context_length == 100
    with LLM(model, kv_tokens=32) as one_page:
        page_bytes = one_page.runner.kv_bytes
    weights = model.stat().st_size
    monkeypatch.setattr("unspool.memory.total_bytes", lambda: weights + 10 * page_bytes)
    with LLM(model, context_length=100) as roomy:
        assert 4 < roomy.runner.n_pages <= 16, "what fits beside the weights, which are less than the file"
    monkeypatch.setattr("unspool.memory.total_bytes", lambda: None)
    with LLM(model) as whole:
        assert whole.context_length == 128


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ModelNotFound, match="no such file"):
        LLM(tmp_path / "none.gguf")
    with pytest.raises(ModelNotFound):
        LLM("no-such-model")


def test_a_broken_tokenizer_closes_what_was_open(tmp_path):
    from tiny_models import TinySpec, tiny_source, write_gguf

    path = write_gguf(tmp_path / "bare.gguf", tiny_source(TinySpec()))
    with pytest.raises(unspool.UnspoolError, match=r"tokenizer\.ggml\.model"):
        LLM(path)


def test_a_closed_model_says_so(model):
    llm = LLM(model, limits=Limits(n_unread=8))  # it cannot have ended before it is closed
    stream = llm.stream("hello", PARAMS.replace(max_tokens=100))
    next(stream)
    llm.close()
    llm.close()
    reasons = [event.finish_reason for event in stream]
    assert reasons == [None] * (len(reasons) - 1) + ["cancelled"]
    with pytest.raises(BadRequest, match="closed"):
        llm.generate("hello")


def test_parts_of_ones_own_make_a_model(llm):
    runner = ToyRunner(vocab_size=300, context_length=40)
    own = LLM.from_parts(runner, llm.tokenizer, context_length=20, limits=Limits(n_rows=4, n_tasks=2))
    with own:
        assert own.context_length == 20
        assert len(own.generate("hello", GREEDY).token_ids) == 12
        assert not own.has_chat_template
        with pytest.raises(TemplateError, match="no chat template was given"):
            own.chat([{"role": "user", "content": "hi"}])
    assert runner.is_closed
    other = ToyRunner()
    with pytest.raises(BadRequest, match="context_length"):
        LLM.from_parts(other, llm.tokenizer, context_length=999)
    assert other.is_closed


def test_public_names_are_lazy_and_complete():
    assert set(unspool.__all__) <= set(dir(unspool))
    assert [getattr(unspool, name) for name in unspool.__all__]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        unspool.nothing  # noqa: B018
    loaded = "import sys, unspool; print(sorted(m for m in sys.modules if m.startswith('unspool')))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['unspool']"
