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
from unspool.errors import UnspoolError
params = DecodingParams(temperature=0, max_tokens=60, ignore_eos=True)
llm = LLM.from_parts(PacedRunner(), LETTERS)
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
import os, signal, threading, time
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
park = process._park
def late(is_parked, *others):
    is_parked.set()
    time.sleep(0.1)
    park(is_parked, *others)
process._park = late
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
