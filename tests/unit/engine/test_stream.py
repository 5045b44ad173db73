"""A stream that is cancelled keeps what there is to read."""

from __future__ import annotations

import threading

import pytest
from paced import LETTERS, PacedRunner, wait_until

from unspool import LLM, DecodingParams, Limits

LONG = DecodingParams(max_tokens=200, ignore_eos=True, seed=3)


@pytest.fixture
def llm():
    with LLM.from_parts(PacedRunner(), LETTERS) as llm:
        yield llm
        llm.runner.let(None)


def test_a_cancelled_stream_has_the_text_until_there_and_a_last_event_with_usage_and_seed(llm):
    whole = llm.generate([1, 2], LONG)
    stream = llm.stream([1, 2], LONG)
    heard = [next(stream), next(stream)]
    stream.cancel()
    stream.cancel()
    heard += stream
    last = heard[-1]
    assert (last.finish_reason, last.seed) == ("cancelled", 3)
    ids = [token_id for event in heard for token_id in event.token_ids]
    assert last.usage.completion_tokens == len(ids) < len(whole.token_ids)
    assert ids == list(whole.token_ids[: len(ids)])
    assert whole.text.startswith("".join(event.text for event in heard))
    llm._worker.call(llm._engine.check)
    assert llm._engine.is_idle


def test_every_answer_of_a_cancelled_stream_has_its_last_event(llm):
    stream = llm.stream([1, 2], LONG, n=3)
    next(stream)
    stream.cancel()
    ends = {event.branch: event.finish_reason for event in stream if event.finish_reason is not None}
    assert ends == dict.fromkeys(range(3), "cancelled")


def test_a_stream_that_has_ended_is_not_cancelled(llm):
    stream = llm.stream([1, 2], LONG.replace(max_tokens=3))
    wait_until(lambda: llm._engine.is_idle)
    stream.cancel()
    assert [event.finish_reason for event in stream][-1] == "length"
    stream.close()
    stream.cancel()
    assert list(stream) == []


def test_a_reader_that_waits_hears_that_another_thread_cancelled(llm):
    llm.runner.let(1)
    stream = llm.stream([1, 2], LONG)
    heard = []
    reader = threading.Thread(target=lambda: heard.extend(stream))
    reader.start()
    llm.runner.is_held.wait(30)
    cancelling = threading.Thread(target=stream.cancel)  # waits for the step that is held
    cancelling.start()
    wait_until(lambda: llm._worker._thread.commands.qsize() == 1)
    llm.runner.let(None)
    for thread in (cancelling, reader):
        thread.join(30)
        assert not thread.is_alive()
    assert heard[-1].finish_reason == "cancelled"


@pytest.fixture
def paused():
    """A model, and a stream of it whose reader is behind."""
    with LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_unread=4)) as llm:
        stream = llm.stream([1, 2], LONG)
        wait_until(lambda: llm._engine.is_resting)
        yield llm, stream


def read_by(stream) -> list:
    """Its events, where they come to an end."""
    heard = []
    reader = threading.Thread(target=lambda: heard.extend(stream), daemon=True)
    reader.start()
    reader.join(30)
    assert not reader.is_alive()
    return heard


def test_a_paused_stream_can_be_cancelled(paused):
    llm, stream = paused
    stream.cancel()
    assert read_by(stream)[-1].finish_reason == "cancelled"
    llm._worker.call(llm._engine.check)
    assert llm._engine.is_idle


def test_a_stream_whose_model_is_closed_is_cancelled_already(paused):
    llm, stream = paused
    llm.close()
    stream.cancel()
    assert read_by(stream)[-1].finish_reason == "cancelled"


def test_an_interrupt_while_a_stream_is_cancelled_loses_none_of_its_events(paused, monkeypatch):
    llm, stream = paused
    call = llm._worker.call

    def interrupted(work):
        call(work)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(llm._worker, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.cancel()
    stream.cancel()
    assert read_by(stream)[-1].finish_reason == "cancelled"


def test_a_stream_may_be_cancelled_on_the_thread_of_its_model(paused):
    llm, stream = paused
    llm._worker.submit(stream.cancel).result(30)
    assert read_by(stream)[-1].finish_reason == "cancelled"
