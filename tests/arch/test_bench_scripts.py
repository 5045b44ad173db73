"""The measuring scripts run and count right; what they measure is shown by running them."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_models import TinySpec, tiny_source

from unspool.models.architectures import build_graph
from unspool.models.config import read_config

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.mark.parametrize("script", ["own", "overhead", "peers", "divergence", "perplexity"])
def test_a_script_explains_itself(script: str) -> None:
    result = subprocess.run(
        [sys.executable, BENCH / f"{script}.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "--models" in result.stdout


def test_the_script_about_many_requests_explains_itself() -> None:
    result = subprocess.run(
        [sys.executable, BENCH / "concurrency.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "--peer-python" in result.stdout


def test_the_script_about_choosing_tokens_explains_itself() -> None:
    result = subprocess.run(
        [sys.executable, BENCH / "logits.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "--torch-python" in result.stdout


@pytest.mark.parametrize(
    ("script", "option"),
    [("first_token", "--llama-cli"), ("loaded", "--runs"), ("cached_layers", "--rounds")],
)
def test_a_script_about_one_model_explains_itself(script: str, option: str) -> None:
    result = subprocess.run(
        [sys.executable, BENCH / f"{script}.py", "--help"], capture_output=True, text=True, check=True
    )
    assert option in result.stdout


def test_the_first_byte_of_an_answer_is_told_from_what_stands_before_it() -> None:
    from first_token import Program, first_byte_s

    late = "import sys, time; print('> Hi', flush=True); time.sleep(0.3); print('answer')"
    command = [sys.executable, "-c", late]
    assert first_byte_s(Program("with", command, b"> Hi\n")) >= 0.3
    assert first_byte_s(Program("plain", [sys.executable, "-c", "print('answer')"])) > 0
    with pytest.raises(SystemExit, match="gave no answer"):
        first_byte_s(Program("other", command, b"nonesuch"))


def test_all_programs_are_given_the_same_logits(tmp_path: Path) -> None:
    from logits_workload import biases, history, median_us, write_rows

    first, second = write_rows(tmp_path, [100, 300])
    assert np.load(first).shape == (8, 100)
    before = Path(second).read_bytes()
    assert Path(write_rows(tmp_path, [300])[0]).read_bytes() == before
    assert max(history(300)) < 300
    assert len(biases(300)) == 100
    assert median_us(lambda i: 1e-6 * i, 5) == pytest.approx(5)  # the first three calls do not count


def test_a_network_with_one_layer_s_weights_has_all_its_ops_and_no_other_layer_s_weights() -> None:
    from cached_layers import with_one_layer_s_weights

    source = tiny_source(TinySpec("qwen2", n_layers=3))
    graph = build_graph(read_config(source), source)
    other = with_one_layer_s_weights(graph)
    assert [type(op) for op in other.ops] == [type(op) for op in graph.ops]
    named = {getattr(op, name) for op in other.ops for name in ("weight", "bias") if hasattr(op, name)}
    assert {name for name in named if name} == {
        name for name in source.names() if not name.startswith(("blk.1.", "blk.2."))
    }


def test_an_environment_without_llama_cpp_is_refused_with_a_way_out() -> None:
    result = subprocess.run(
        [sys.executable, BENCH / "peers.py", "--peer-python", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "make bench-peers" in result.stderr


def test_there_are_twenty_prompts_and_no_two_alike() -> None:
    from prompts import PROMPTS

    assert len(set(PROMPTS)) == 20


def test_a_program_equal_to_the_reference_diverges_by_nothing(tmp_path: Path) -> None:
    from divergence import divergence

    logits = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    np.save(tmp_path / "0.npy", logits)
    found = divergence(tmp_path, tmp_path, 1).as_dict()
    assert found == {"n_positions": 5, "mean_kl": 0.0, "p99_kl": 0.0, "max_kl": 0.0, "top1": 1.0}


def test_divergence_is_kl_from_the_reference_in_nats_over_all_positions(tmp_path: Path) -> None:
    from divergence import divergence

    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
    for name, first in (("reference", p), ("program", q)):
        (tmp_path / name).mkdir()
        rows = np.log(np.array([first, p])) + 3.0  # logits are logprobs up to a constant
        np.save(tmp_path / name / "0.npy", rows.astype(np.float32))
    found = divergence(tmp_path / "reference", tmp_path / "program", 1)
    assert found.kl[0] == pytest.approx(np.sum(p * np.log(p / q)), rel=1e-5)
    assert found.kl[1] == pytest.approx(0.0, abs=1e-6)
    assert found.as_dict()["top1"] == 0.5


def test_windows_share_no_token_and_each_begins_with_bos() -> None:
    from perplexity import windows

    assert windows([1, 2, 3, 4, 5, 6, 7], [0], 2, 4) == [[0, 1, 2, 3], [0, 4, 5, 6]]
    assert windows([1, 2, 3, 4], [], 2, 2) == [[1, 2], [3, 4]]


def test_perplexity_of_a_uniform_model_is_its_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    from perplexity import perplexity
    from sides import Side

    def uniform(self: Side, job: dict[str, object]) -> dict[str, object]:
        np.save(Path(str(job["out"])) / "0.npy", np.full(9, -math.log(8)))
        return {}

    monkeypatch.setattr(Side, "run", uniform)
    assert perplexity(Side("toy", "", ""), {"sequences": [[0] * 10]}) == pytest.approx(8)


def test_a_prompt_is_repeated_to_exactly_the_length_asked_for() -> None:
    from workloads import cycled

    assert cycled([1, 2, 3], 7) == [1, 2, 3, 1, 2, 3, 1]
    assert cycled([1, 2, 3], 2) == [1, 2]


def test_a_sample_states_its_median_and_spread() -> None:
    from figures import Sample

    sample = Sample((10.0, 9.0, 11.0))
    assert sample.median == 10.0
    assert sample.spread == pytest.approx(0.2)
    assert str(sample) == "10 ±10 %"


def test_sequences_lay_out_pages_rows_and_wanted_logits_as_a_plan_says() -> None:
    from sequences import Sequences
    from unspool.runners.plan_check import check_plan
    from unspool.types import F32, Plan

    class Recorder:
        vocab_size, context_length, page_size, n_pages = 8, 64, 4, 6

        def __init__(self) -> None:
            self.plans: list[Plan] = []

        def forward(self, plan: Plan) -> F32:
            check_plan(plan, self)
            self.plans.append(plan)
            return np.zeros((len(plan.logits_rows), 8), np.float32)

        def copy_page(self, source: int, target: int) -> None:
            raise AssertionError("a sequence that only grows copies nothing")

        def close(self) -> None:
            self.plans.clear()

    runner = Recorder()
    state = Sequences(runner, 2, 9)
    state.extend([[1, 2, 3, 4, 5], [6]])
    state.extend([[7], [0, 1, 2]], first=[0, 2])
    first, second = runner.plans
    assert first.logits_rows.tolist() == [4, 5]
    assert first.page_table.tolist() == [0, 1, 3]
    assert second.n_past.tolist() == [5, 1]
    assert second.page_table.tolist() == [0, 1, 3]
    assert second.logits_rows.tolist() == [0, 2, 3]  # position 5 of one, positions 2 and 3 of the other
    state.rewind(1)
    assert state.n_past == [1, 1]
