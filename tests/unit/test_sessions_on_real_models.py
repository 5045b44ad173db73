"""A session on a real model, from one process to the next: the same bits, and nothing read twice."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from unspool import LLM, DecodingParams
from unspool.errors import SessionFileError

pytestmark = pytest.mark.model

PROMPT = (
    "The lighthouse stood at the end of the pier, and every evening its keeper climbed the two hundred steps "
    "to light the lamp. He had done so for thirty years, through storms and calm nights, and he knew each"
)
MORE = " step by the sound it made."
GREEDY = DecodingParams(temperature=0, max_tokens=12, logprobs=3)

# Save in one process, load and go on in another: what it prints is told bit for bit (floats as hex).
TELL = """
def told(done):
    entries = [each for found in done.logprobs for each in (found.token, *found.top)]
    return [done.usage.cached_tokens, list(done.token_ids), [each.logprob.hex() for each in entries]]
"""
SAVE = (
    TELL
    + """
import json, sys
from unspool import LLM, DecodingParams
model, path, prompt, more = sys.argv[1:]
with LLM(model, threads=1) as llm:
    cold = llm.generate(prompt + more, DecodingParams(temperature=0, max_tokens=12, logprobs=3))
    saved = llm.save_session(path, prompt)
    print(json.dumps([len(saved.token_ids), told(cold)]))
"""
)
LOAD = (
    TELL
    + """
import json, sys
from unspool import LLM, DecodingParams
model, path, prompt, more = sys.argv[1:]
with LLM(model, threads=2, page_size=16) as llm:
    loaded = llm.load_session(path)
    warm = llm.generate(prompt + more, DecodingParams(temperature=0, max_tokens=12, logprobs=3))
    same = llm.generate(list(loaded.token_ids), DecodingParams(temperature=0, max_tokens=1))
    print(json.dumps([len(loaded.token_ids), told(warm), same.usage.cached_tokens]))
"""
)


def in_a_process(script, *arguments):
    ran = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)


def test_a_text_saved_in_one_process_goes_on_in_another_bit_for_bit(model_path, tmp_path):
    arguments = (model_path("smollm2-135m"), tmp_path / "a.session", PROMPT, MORE)
    n_saved, (_, cold_ids, cold_logprobs) = in_a_process(SAVE, *arguments)
    n_loaded, (n_cached, warm_ids, warm_logprobs), n_cached_same = in_a_process(LOAD, *arguments)
    assert n_saved == n_loaded == n_cached == n_cached_same + 1 > 32
    assert (warm_ids, warm_logprobs) == (cold_ids, cold_logprobs)


def test_a_session_of_another_instruction_set_changes_no_answer(model_path, tmp_path, monkeypatch):
    from unspool.runners.native import instruction_sets

    if len(instruction_sets()) < 2:
        pytest.skip("this machine runs one instruction set")
    path = tmp_path / "a.session"
    with LLM(model_path("smollm2-135m"), threads=1) as llm:
        llm.save_session(path, PROMPT)
    monkeypatch.setenv("UNSPOOL_ISA", instruction_sets()[-1])
    with LLM(model_path("smollm2-135m"), threads=1) as llm:
        with pytest.raises(SessionFileError) as caught:
            llm.load_session(path)
        assert caught.value.code == "session_stale"
        assert llm.generate(PROMPT, GREEDY).usage.cached_tokens == 0


def test_two_models_of_one_catalogue_are_told_apart(model_path, tmp_path):
    path = tmp_path / "a.session"
    with LLM(model_path("smollm2-135m"), threads=1) as llm:
        llm.save_session(path, PROMPT)
    with LLM(model_path("gemma3-270m"), threads=1) as llm:
        with pytest.raises(SessionFileError, match="is of 'smollm2-135m', and 'gemma3-270m' is loaded"):
            llm.load_session(path)
        cold = llm.generate(PROMPT + MORE, GREEDY)
        llm.save_session(path, PROMPT)
    with LLM(model_path("gemma3-270m"), threads=1) as llm:
        n_saved = len(llm.load_session(path).token_ids)
        warm = llm.generate(PROMPT + MORE, GREEDY)
    assert warm.usage.cached_tokens == n_saved
    assert (warm.token_ids, warm.logprobs) == (cold.token_ids, cold.logprobs)
