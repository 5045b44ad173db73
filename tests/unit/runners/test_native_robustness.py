"""The native core where something is wrong: numbers, memory, threads, processes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from random_plans import Part, make_plan
from tiny_models import TinySpec, tiny_source

from unspool import _native
from unspool.errors import ModelFileError
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.weights import Encoding
from unspool.runners import native
from unspool.runners.native import NativeRunner, instruction_sets
from unspool.runners.native_builder import TYPE_NUMBERS

SUPPORT = Path(__file__).parents[2] / "support"
SOURCE = Path(native.__file__).parents[2]


def make_runner(source=None, **settings) -> NativeRunner:
    source = tiny_source(TinySpec(context_length=400)) if source is None else source
    return NativeRunner(build_graph(read_config(source), source), source, **{"n_pages": 64} | settings)


# Byte offset of a float16 scale in a block.
SCALES = {
    Encoding.Q2_K: 80,
    Encoding.Q3_K: 108,
    Encoding.Q6_K: 208,
    Encoding.F16: 0,
}


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda e: e.label)
@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E00])
def test_a_matrix_with_a_scale_that_is_no_number_is_refused(encoding: Encoding, bits: int) -> None:
    if encoding in (Encoding.F32, Encoding.BF16):
        bits |= 0x7F80  # their exponent is longer
    block = np.zeros((3, max(encoding.block_bytes, 2) * (256 // encoding.block_values)), np.uint8)
    engine = _native.Engine(1, "")
    engine.add_matrix(TYPE_NUMBERS[encoding], block.reshape(-1), 3, 256)
    at = 2 if encoding is Encoding.F32 else SCALES.get(encoding, 0)
    block[1, at : at + 2] = np.array([bits], "<u2").view(np.uint8)
    with pytest.raises(OverflowError, match="infinite or not a number"):
        engine.add_matrix(TYPE_NUMBERS[encoding], block.reshape(-1), 3, 256)


@pytest.mark.parametrize("name", ["blk.1.ffn_down.weight", "blk.0.attn_norm.weight", "token_embd.weight"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_model_with_a_weight_that_is_no_number_is_refused_by_name(name: str, value: float) -> None:
    source = tiny_source(TinySpec())
    broken = source.arrays[name].copy()
    broken.reshape(-1)[-1] = value
    with pytest.raises(ModelFileError, match=f"{name}: holds infinities or what is not a number"):
        make_runner(source.with_arrays({name: broken}))


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("n_tokens", [1, 20, 300])
def test_a_value_that_overflows_on_the_way_shows_in_the_logits(isa: str, n_tokens: int) -> None:
    source = tiny_source(TinySpec(context_length=400))
    huge = {"blk.0.attn_q.weight": np.full_like(source.arrays["blk.0.attn_q.weight"], 3e38)}
    runner = make_runner(source.with_arrays(huge), isa=isa, n_threads=2)
    plan = make_plan([Part(list(range(n_tokens % 90)) or [1], n_tokens - (n_tokens % 90 or 1), range(20))])
    assert np.isnan(runner.forward(plan)).all()


@pytest.mark.parametrize("isa", instruction_sets())
def test_caps_of_scores_and_logits_do_not_hide_what_is_no_number(isa: str) -> None:
    source = tiny_source(TinySpec("gemma2", window=5))
    embedding = source.arrays["token_embd.weight"].copy()
    embedding[7] = 3e38  # infinite when it is scaled
    runner = make_runner(source.with_arrays({"token_embd.weight": embedding}), isa=isa)
    # Its own logit would be infinite in other rows.
    logits = np.delete(runner.forward(make_plan([Part([1, 7], 0, [0])])), 7, axis=1)
    assert np.isfinite(logits[0]).all()
    assert np.isnan(logits[1]).all()


@pytest.mark.parametrize("isa", instruction_sets())
def test_a_quantized_product_does_not_hide_what_is_no_number(isa: str) -> None:
    engine = _native.Engine(1, isa)
    matrix = engine.add_matrix(TYPE_NUMBERS[Encoding.Q8_0], np.ones(34 * 4, np.uint8), 2, 64)
    x = np.zeros((2, 64), np.float32)
    x[1] = np.nan
    result = engine.product(matrix, x)
    assert (result[0] == 0).all()
    assert np.isnan(result[1]).all()


def test_forward_from_several_threads_gives_each_its_own_bits() -> None:
    runner = make_runner(n_threads=2)
    plans = [make_plan([Part(list(range(s, s + 30)), 0, [2 * s, 2 * s + 1])]) for s in range(16)]
    expected = [runner.forward(plan) for plan in plans]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            results = list(threads.map(runner.forward, plans))
            assert all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True))


def test_logits_that_are_held_stay_and_memory_of_others_is_used_again() -> None:
    runner = make_runner(n_threads=2)
    plans = [make_plan([Part([t, t + 1], 0, [0])]) for t in range(6)]
    held = [runner.forward(plan) for plan in plans]
    copies = [logits.copy() for logits in held]
    view = held[0][-1, ::2]
    assert len({logits.ctypes.data for logits in held}) == len(held)
    del held[1:]
    places = set()
    for plan in plans * 3:  # each result is given up before the next but one is made
        logits = runner.forward(plan)
        places.add(logits.ctypes.data)
    assert len(places) <= 2
    assert np.array_equal(held[0], copies[0])
    del held
    for plan, copy in zip(plans, copies, strict=True):
        assert np.array_equal(runner.forward(plan), copy)
    assert np.array_equal(view, copies[0][-1, ::2])  # a view holds the memory, too
    engine = runner._engine
    assert engine is not None
    assert 0 < engine.spare_bytes <= 2 * logits.nbytes + 128
    runner.close()
    del engine, runner
    assert np.array_equal(logits, copies[-1])


def test_runners_come_and_go_without_leaving_threads() -> None:
    source = tiny_source(TinySpec())
    n_before = len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0
    runners = [make_runner(source, n_threads=1 + n % 4) for n in range(12)]
    plan = make_plan([Part([1, 2, 3], 0, [0])])
    expected = runners[0].forward(plan)
    assert all(np.array_equal(runner.forward(plan), expected) for runner in runners)
    for runner in runners:
        runner.close()
    for _ in range(50):
        runner = make_runner(source, n_threads=3)
        assert np.array_equal(runner.forward(plan), expected)
        runner.close()
    if sys.platform == "linux":
        # Fewer where a thread of an earlier test was still on its way out.
        assert len(os.listdir("/proc/self/task")) <= n_before


def in_a_process(code: str) -> str:
    """Run code that has `make_runner` and a plan of three tokens; what it prints."""
    start = (
        "import os, resource, sys\n"
        "import numpy as np\n"
        "from random_plans import Part, make_plan\n"
        "from test_native_robustness import make_runner\n"
        "plan = make_plan([Part([1, 2, 3], 0, [0])])\n"
        "def leave_bytes(n):\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + n, used + n))\n"
    )
    path = os.pathsep.join(map(str, (SOURCE, SUPPORT, Path(__file__).parent)))
    done = subprocess.run(
        [sys.executable, "-c", start + code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot choose a processor here")
def test_threads_that_share_one_processor_change_nothing() -> None:
    code = (
        "rng = np.random.default_rng(5)\n"
        "parts = [Part(rng.integers(0, 40, n).tolist(), 0, [8 * i + j for j in range(8)])\n"
        "         for i, n in enumerate((1, 7, 40, 90))]\n"
        "plans = [make_plan([part]) for part in parts] + [make_plan(parts)]\n"
        "alone = make_runner(n_threads=1)\n"
        "expected = [alone.forward(plan) for plan in plans]\n"
        "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "crowd = make_runner(n_threads=5)\n"
        "rounds = [[crowd.forward(plan) for plan in plans] for _ in range(3)]\n"
        "print(all(np.array_equal(a, b) for results in rounds for a, b in zip(results, expected)))\n"
    )
    assert in_a_process(code) == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_computes_with_threads_of_its_own_and_can_leave() -> None:
    code = (
        "runner = make_runner(n_threads=3)\n"
        "untouched = make_runner(n_threads=3)\n"
        "expected = runner.forward(plan)\n"
        "child = os.fork()\n"
        "same = np.array_equal(runner.forward(plan), expected)\n"
        "runner.close()\n"
        "del untouched\n"
        "if child:\n"
        "    print(same, os.waitpid(child, 0)[1])\n"
        "else:\n"
        "    os._exit(0 if same else 1)\n"
    )
    assert in_a_process(code) == "True 0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_amid_a_pass_of_another_thread_is_told_to_load_the_model_anew() -> None:
    code = (
        "import signal, threading\n"
        "from unspool.errors import UnspoolError\n"
        "runner = make_runner(n_threads=2)\n"
        "expected = runner.forward(plan)\n"
        "long = make_plan([Part([1] * 400, 0, range(13 * s, 13 * s + 13)) for s in range(4)])\n"
        "is_over = threading.Event()\n"
        "def work():\n"
        "    while not is_over.is_set():\n"
        "        runner.forward(long)\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "told = set()\n"
        "def use(call):\n"
        "    try:\n"
        "        call()\n"
        "    except UnspoolError as error:\n"
        "        return f'{error.code}: {error}'\n"
        "calls = [lambda: runner.forward(plan), lambda: runner.copy_page(0, 1),\n"
        "         lambda: runner.read_page(0), runner.read_rate]\n"
        "for _ in range(50):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        signal.alarm(20)\n"
        "        said = {use(call) for call in calls}\n"
        "        if said == {None}:\n"  # between two passes
        "            os._exit(0)\n"
        "        runner.close()\n"
        "        good = make_runner(n_threads=2).forward(plan)\n"
        "        is_told = len(said) == 1 and 'forked: the process was forked while' in said.pop()\n"
        "        os._exit(1 if is_told and np.array_equal(good, expected) else 2)\n"
        "    told.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    if told - {0}:\n"
        "        break\n"
        "is_over.set()\n"
        "thread.join()\n"
        "print(max(told), np.array_equal(runner.forward(plan), expected))\n"
    )
    assert in_a_process(code) == "1 True"


def test_what_another_thread_would_add_while_matrices_are_packed_is_refused() -> None:
    engine = _native.Engine(1, "")
    block = np.ones(2048 * 2048, np.float32).view(np.uint8)
    for _ in range(4):
        engine.plan_matrix(TYPE_NUMBERS[Encoding.F32], block, 2048, 2048, False)
    n_refused = 0
    with ThreadPoolExecutor(1) as thread:
        packing = thread.submit(engine.pack)
        while not packing.done():
            try:
                engine.add_register(32)
            except ValueError as error:
                n_refused += "being packed in another thread" in str(error)
        assert packing.result() == -1
    assert n_refused > 0
    assert (engine.unpack(3) == 1).all()


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_memory_that_runs_out_in_a_step_leaves_the_runner_usable() -> None:
    code = (
        "runner = make_runner(n_pages=6400, page_size=16, n_threads=2)\n"
        "expected = runner.forward(plan)\n"
        "many = make_plan([Part([1] * 400, 0, range(25 * s, 25 * s + 25)) for s in range(256)], [0])\n"
        "leave_bytes(64 << 20)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        runner.forward(many)\n"
        "    except MemoryError:\n"
        "        print('out', end=' ')\n"
        "print(np.array_equal(runner.forward(plan), expected))\n"
    )
    assert in_a_process(code) == "out out True"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_threads_that_the_system_does_not_give_are_an_error() -> None:
    code = (
        "from unspool.errors import CapacityError\n"
        "leave_bytes(256 << 20)\n"
        "try:\n"
        "    make_runner(n_threads=256)\n"
        "except CapacityError as error:\n"
        "    print(error)\n"
        "print(make_runner(n_threads=1).forward(plan).shape)\n"
    )
    said, shape = in_a_process(code).splitlines()
    assert said.startswith("the system gives no 256 threads")
    assert shape == "(3, 96)"
