"""What becomes of an engine and its thread when the process is forked."""

from __future__ import annotations

import os

import pytest
from processes import in_a_process

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def test_a_child_process_goes_on_with_a_model_of_its_own():
    """Forked while the parent writes: the child can neither read the parent's answer nor harm it."""
    program = """
import os
from paced import LETTERS, PacedRunner
from unspool import LLM, DecodingParams
from unspool.engine.limits import Limits
from unspool.errors import UnspoolError
params = DecodingParams(temperature=0, max_tokens=60, ignore_eos=True)
llm = LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_unread=8))  # it cannot end before the fork
expected = llm.generate([1, 2], params).token_ids
stream = llm.stream([1, 2], params)
told = next(stream).token_ids
child = os.fork()
if child == 0:
    try:
        list(stream)
    except UnspoolError as error:
        said = error.code
    good = said == "forked" and llm.generate([1, 2], params).token_ids == expected
    llm._worker.call(llm._engine.check)
    llm.close()
    os._exit(0 if good else 3)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert told + tuple(i for event in stream for i in event.token_ids) == expected
print("both are well")
"""
    assert in_a_process(program) == "both are well\n"


def test_threads_that_fork_at_once_each_get_a_child_whose_engine_is_whole():
    program = """
import os, threading, time
from paced import LETTERS, PacedRunner
from unspool import LLM, DecodingParams
params = DecodingParams(temperature=0, max_tokens=200, ignore_eos=True)
llm = LLM.from_parts(PacedRunner(), LETTERS)
is_stepping = False
step = llm._engine.step
def slow():
    global is_stepping
    is_stepping = True
    time.sleep(0.0005)  # where another thread may fork
    events = step()
    is_stepping = False
    return events
llm._engine.step = slow
is_over = threading.Event()
def write():
    while not is_over.is_set():
        llm.generate([1, 2], params)
told = []
def fork():
    for _ in range(25):
        child = os.fork()
        if child == 0:
            os._exit(3 if is_stepping else 0)
        told.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
writing = threading.Thread(target=write)
writing.start()
forking = [threading.Thread(target=fork) for _ in range(4)]
for thread in forking:
    thread.start()
for thread in forking:
    thread.join()
is_over.set()
writing.join()
llm.close()
print(len(told), max(told))
"""
    assert in_a_process(program) == "100 0\n"


def test_a_thread_that_comes_late_to_wait_for_one_fork_is_there_for_the_next():
    program = """
import os, signal, time
from paced import LETTERS, PacedRunner
from unspool import LLM, DecodingParams
from unspool.engine import process
stand = process._stand
def late(is_there):
    is_there.set()
    time.sleep(0.1)
    stand(is_there)
process._stand = late
signal.alarm(30)
llm = LLM.from_parts(PacedRunner(), LETTERS)
llm.generate([1], DecodingParams(max_tokens=2))
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
llm.generate([1], DecodingParams(max_tokens=2))
llm.close()
print("it went on")
"""
    assert in_a_process(program) == "it went on\n"


@pytest.mark.parametrize("call", ["llm.close()", "llm.generate([1])"])
def test_a_child_that_is_forked_while_another_thread_closes_the_model_finds_it_closed(call):
    program = f"""
import os, signal, threading
from paced import LETTERS, PacedRunner
from unspool import LLM
from unspool.errors import BadRequest
is_closing, may_close = threading.Event(), threading.Event()
class Slow(PacedRunner):
    def close(self):
        is_closing.set()
        may_close.wait()
        super().close()
llm = LLM.from_parts(Slow(), LETTERS)
closing = threading.Thread(target=llm.close)
closing.start()
is_closing.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    may_close.set()
    try:
        {call}
    except BadRequest as error:
        os._exit(error.code != "closed")
    os._exit(0)
_, status = os.waitpid(child, 0)
may_close.set()
closing.join()
print(os.waitstatus_to_exitcode(status))
"""
    assert in_a_process(program) == "0\n"


INTERRUPTS = {
    "Ctrl-C": ("signal.SIGINT", "signal.default_int_handler", "KeyboardInterrupt()"),
    "another signal": ("signal.SIGTERM", "stop", "ZeroDivisionError('stop')"),
}


@pytest.mark.parametrize("way", INTERRUPTS)
def test_an_interrupt_while_threads_are_being_held_reaches_the_program_and_all_of_them_go_on(way):
    """The child, which was forked all the same, is told that it has no model."""
    number, handler, error = INTERRUPTS[way]
    program = f"""
import os, signal, threading
from paced import LETTERS, PacedRunner
from processes import code_of
from unspool import LLM, DecodingParams
def stop(*_):
    raise ZeroDivisionError("stop")
signal.alarm(60)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal({number}, {handler})
params = DecodingParams(temperature=0, max_tokens=30, ignore_eos=True)
llm, *others = (LLM.from_parts(PacedRunner(), LETTERS) for _ in range(4))
expected = [each.generate([1, 2], params).token_ids for each in (llm, *others)][0]
llm.runner.let(2)
stream, thread, is_asked = llm.stream([1, 2], params), llm._worker._thread, threading.Event()
llm.runner.is_held.wait(30)
post = thread.post
def noted(work):
    post(work)
    is_asked.set()
thread.post = noted
def interrupt():
    is_asked.wait(30)
    os.kill(os.getpid(), {number})
threading.Thread(target=interrupt).start()
try:
    if os.fork() == 0:
        codes = [code_of(lambda: llm.generate([1])), code_of(lambda: list(stream))]
        llm.close()
        os._exit(codes != ["forked", "forked"])
    print("swallowed")
except (KeyboardInterrupt, ZeroDivisionError) as problem:
    print(repr(problem), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print(os.wait()[1])
llm.runner.let(None)
print(tuple(i for event in stream for i in event.token_ids) == expected)
print([each.generate([1, 2], params).token_ids == expected for each in others])
if os.fork() == 0:
    good = all(each.generate([1, 2], params).token_ids == expected for each in (llm, *others))
    os._exit(not good)
print(os.wait()[1])
"""
    assert in_a_process(program) == f"{error} True\n0\nTrue\n[True, True, True]\n0\n"


def test_an_interrupt_that_comes_with_the_turn_to_fork_lets_all_threads_go_on_and_keeps_no_closed_model():
    program = """
import gc, os, signal, weakref
from paced import LETTERS, PacedRunner
from unspool import LLM, DecodingParams
from unspool.engine import process
signal.alarm(30)
signal.signal(signal.SIGINT, signal.default_int_handler)
params = DecodingParams(max_tokens=2, ignore_eos=True)
lock = process.between_forks
class Interrupted:
    _is_owned = lock._is_owned
    def acquire(self):
        lock.acquire()
        process.between_forks = lock
        signal.raise_signal(signal.SIGINT)
llm, other = (LLM.from_parts(PacedRunner(), LETTERS) for _ in range(2))
for each in (llm, other):
    each.generate([1], params)
process.between_forks = Interrupted()
try:
    os.fork() or os._exit(0)
except KeyboardInterrupt:
    print("told")
os.wait()
print(lock._is_owned(), len(llm.generate([1], params).token_ids))
runner = weakref.ref(other.runner)
other.close()
del each, other
gc.collect()
print(runner() is None)
if os.fork() == 0:
    os._exit(len(llm.generate([1], params).token_ids) != 2)
print(os.wait()[1])
"""
    assert in_a_process(program) == "told\nFalse 2\nTrue\n0\n"


def test_a_child_has_no_model_that_was_not_held_whatever_became_of_the_hook():
    """What a hook raises is lost, and the fork goes on."""
    program = """
import os, signal, sys
from paced import LETTERS, PacedRunner
from processes import code_of
from unspool import LLM, DecodingParams
from unspool.engine import process
signal.alarm(30)
llm = LLM.from_parts(PacedRunner(), LETTERS)
llm.generate([1], DecodingParams(max_tokens=2))
sys.unraisablehook = lambda _: None
take_turn = process._take_turn
def interrupted():
    take_turn()
    raise KeyboardInterrupt
process._take_turn = interrupted
if os.fork() == 0:
    os._exit(code_of(lambda: llm.generate([1])) != "forked")
print(os.wait()[1])
"""
    assert in_a_process(program) == "0\n"


@pytest.mark.parametrize(
    "work",
    [
        "stream.close()",
        "first.generate([1, 2], params)",
        "first.close()",
        "idle.generate([1, 2], params)",
        "os.waitpid(os.fork() or os._exit(0), 0)",
    ],
)
def test_a_thread_that_waits_for_one_that_a_fork_holds_comes_to_an_end(work):
    """As a finalizer may, or a runner that asks another model, on the thread of an engine."""
    program = f"""
import os, signal
from paced import LETTERS, PacedRunner, wait_until
from unspool import LLM, DecodingParams
from unspool.engine import process
signal.alarm(60)
params = DecodingParams(temperature=0, max_tokens=30, ignore_eos=True)
llms = [LLM.from_parts(PacedRunner(), LETTERS) for _ in range(2)]
idle = LLM.from_parts(PacedRunner(), LETTERS)
expected = [llm.generate([1, 2], params).token_ids for llm in llms][0]
llms.sort(key=lambda llm: list(process.running).index(llm._worker._thread))  # as they will be held
first, last = llms
stream, thread, asked = first.stream([1, 2], params), first._worker._thread, []
post = thread.post
def noted(command):
    post(command)
    asked.extend(getattr(command, "args", ()))
thread.post = noted
def wait():
    wait_until(lambda: asked and asked[0].is_set())
    {work}
waiting = last._worker.submit(wait)
if os.fork() == 0:
    signal.alarm(30)
    os._exit(last.generate([1, 2], params).token_ids != expected)
print(os.wait()[1])
waiting.result()
print(last.generate([1, 2], params).token_ids == expected)
"""
    assert in_a_process(program) == "0\nTrue\n"


def test_an_engine_whose_pages_do_not_add_up_in_a_child_keeps_no_other_from_beginning():
    program = """
import os, signal
from paced import LETTERS, PacedRunner
from processes import code_of
from unspool import LLM
from unspool.engine import process
def lost():
    raise AssertionError("a page is lost")
llms = [LLM.from_parts(PacedRunner(), LETTERS) for _ in range(2)]
for llm in llms:
    llm.generate([1, 2])
llms.sort(key=lambda llm: list(process.running).index(llm._worker._thread))
llms[0]._engine.check = lost
if os.fork() == 0:
    signal.alarm(30)
    llms[1].generate([1, 2])
    os._exit(code_of(lambda: llms[0].generate([1, 2])) != "engine_failed")
print(os.wait()[1])
"""
    assert in_a_process(program) == "0\n"


@pytest.mark.parametrize(
    ("door", "get"), [("LLM", "_inbox.get"), ("AsyncLLM", "_inbox.get"), ("AsyncLLM", "_make_request")]
)
def test_a_child_that_reads_what_another_thread_was_reading_hears_of_the_fork(door, get):
    """That thread waits for news, or for the request to be made."""
    program = f"""
import asyncio, os, signal, threading
from paced import LETTERS, PacedRunner
from processes import code_of
from unspool import LLM, AsyncLLM, DecodingParams, Limits
params = DecodingParams(temperature=0, max_tokens=30, ignore_eos=True)
llm = LLM.from_parts(PacedRunner(), LETTERS, limits=Limits(n_unread=4))
stream, is_reading = {door}.of(llm).stream([1, 2], params), threading.Event()
def never():
    is_reading.set()
    threading.Event().wait()
async def never_comes():
    never()
async def read(is_first):
    async for _ in stream:
        if is_first:
            stream._inbox.get = never_comes
if {door} is LLM:
    next(stream)
    stream._inbox.get = never
    there, here = lambda: next(stream), lambda: list(stream)
else:
    if {get!r} == "_make_request":
        stream._make_request = never
    there, here = (lambda is_first=i: asyncio.run(read(is_first)) for i in (True, False))
threading.Thread(target=there, daemon=True).start()
is_reading.wait()
if os.fork() == 0:
    signal.alarm(30)
    if stream._inbox is not None:
        del stream._inbox.get
    os._exit(code_of(here) != "forked")
print(os.wait()[1], flush=True)
os._exit(0)  # the thread never ends
"""
    assert in_a_process(program) == "0\n"


def test_a_child_finds_open_what_a_thread_had_locked_that_waits_for_a_whole_answer():
    program = """
import os, signal, threading
from paced import LETTERS, PacedRunner
from unspool import LLM, DecodingParams
from unspool.engine.inbox import Gathered
from unspool.types import Request
llm, inbox = LLM.from_parts(PacedRunner(), LETTERS), Gathered()
llm.runner.let(1)
request = Request((1, 2), DecodingParams(temperature=0, max_tokens=30, ignore_eos=True))
llm._worker.submit_open([request], [inbox]).result()
llm.runner.is_held.wait(30)
pausing = llm._worker.submit(lambda: llm._engine.pause(inbox.request_id))
llm.runner.let(None)
pausing.result()
is_locked, is_over = threading.Event(), threading.Event()
def lock():
    with inbox.whole._condition:
        is_locked.set()
        is_over.wait()
locking = threading.Thread(target=lock)
locking.start()
is_locked.wait()
signal.alarm(30)
if os.fork() == 0:
    signal.alarm(30)
    os._exit(inbox.whole.exception().code != "forked")
print(os.wait()[1])
is_over.set()
locking.join()
"""
    assert in_a_process(program) == "0\n"
