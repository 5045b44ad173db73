"""How the thread that runs an engine wakes coroutines that read its streams."""

from __future__ import annotations

import asyncio

import pytest
from toy_engine import make_engine

from unspool.engine.async_stream import LoopBell, LoopInbox
from unspool.engine.engine_thread import EngineThread
from unspool.params import DecodingParams
from unspool.types import Request


class PromptLoop:
    """One that has answered before who called goes on."""

    n_calls = 0

    def is_closed(self):
        return False

    def call_soon_threadsafe(self, callback):
        self.n_calls += 1
        callback()


def test_a_loop_is_woken_once_a_step_however_many_streams_it_reads():
    engine, loop = make_engine(), PromptLoop()
    thread, bell = EngineThread(engine), LoopBell(loop)
    inboxes = [LoopInbox(bell) for _ in range(3)]
    params = DecodingParams(max_tokens=6, ignore_eos=True, seed=1)
    thread.open([Request((1, 2, i), params) for i in range(3)], inboxes)
    for n_steps in range(1, 7):
        thread._deliver(engine.step())
        assert loop.n_calls == n_steps
        assert [inbox.n_unread for inbox in inboxes] == [n_steps] * 3
    assert engine.is_idle


@pytest.mark.parametrize("is_rung_before", [True, False])
def test_who_has_news_for_a_loop_that_closed_before_it_answered_is_told(is_rung_before):
    loop = asyncio.new_event_loop()
    bell = LoopBell(loop)
    bell.add(LoopInbox(bell))
    for act in (bell.ring, loop.close) if is_rung_before else (loop.close, bell.ring):
        act()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="closed"):
            bell.add(LoopInbox(bell))
