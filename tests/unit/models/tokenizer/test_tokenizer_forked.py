"""A tokenizer in a child that was forked while a thread of the parent used it for the first time."""

from __future__ import annotations

import os

import pytest
from processes import in_a_process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_builds_the_pipeline_that_its_parent_was_building(tmp_path):
    program = f"""
import os, signal, threading
from tiny_llm import write_tiny_llm
from unspool.models.loader import LoadedModel
from unspool.models.tokenizer.encoder import Encoder
tokenizer = LoadedModel(write_tiny_llm({str(tmp_path / "tiny.gguf")!r})).tokenizer
expected = LoadedModel({str(tmp_path / "tiny.gguf")!r}).tokenizer.encode("hello")
build, is_building, may_build = Encoder._build_pipeline, threading.Event(), threading.Event()
def slow(*arguments):
    is_building.set()
    may_build.wait(30)
    return build(*arguments)
Encoder._build_pipeline = slow
building = threading.Thread(target=tokenizer.encode, args=("hello",))
building.start()
is_building.wait(30)
if os.fork() == 0:
    signal.alarm(30)
    Encoder._build_pipeline = build
    os._exit(tokenizer.encode("hello") != expected)
print(os.wait()[1])
may_build.set()
building.join()
print(tokenizer.encode("hello") == expected)
"""
    assert in_a_process(program) == "0\nTrue\n"
