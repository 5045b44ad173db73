"""Beam search against transformers': the same tokens, and scores within 1e-4, for the settings both have."""

from __future__ import annotations

import numpy as np
import pytest
from executing import logits_whole, reference_runner
from hf_models import HF_CASES
from toy_engine import ToyVocabulary
from transformers_models import transformers_model

from unspool.engine.engine import Engine
from unspool.models.weights import open_weights
from unspool.params import DecodingParams
from unspool.search.beam import Beam
from unspool.types import Request

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

N_CASES = 200
N_REAL_CASES = 3  # of a second or two for each token
N_VOCAB = 64


def draw(rng):
    """The settings of one case."""
    width = int(rng.integers(2, 9))
    return {
        "prompt": rng.integers(3, N_VOCAB, int(rng.integers(1, 9))).tolist(),
        "width": width,
        "n_best": int(rng.integers(1, width + 1)),
        "alpha": float(rng.choice([-1, -0.5, 0, 0.6, 1, 1.5, 2])),
        "early_stopping": [True, False, "never"][rng.integers(3)],
        "eos": sorted(rng.choice(np.arange(3, N_VOCAB), int(rng.integers(1, 4)), replace=False).tolist()),
        "n_new": int(rng.integers(2, 14)),
    }


def theirs(model, case):
    """[(tokens without padding, score)] best first."""
    with torch.no_grad():
        out = model.generate(
            torch.tensor([case["prompt"]]),
            num_beams=case["width"],
            num_return_sequences=case["n_best"],
            length_penalty=case["alpha"],
            early_stopping=case["early_stopping"],
            eos_token_id=case["eos"],
            pad_token_id=0,
            max_new_tokens=case["n_new"],
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
    found = []
    for ids, score in zip(out.sequences.tolist(), out.sequences_scores.tolist(), strict=True):
        ids = ids[len(case["prompt"]) :]
        ends = [i for i, token_id in enumerate(ids) if token_id in case["eos"]]
        found.append((tuple(ids[: ends[0] + 1] if ends else ids), score))
    return found


def ours(runner, case):
    vocabulary = ToyVocabulary([b"x"] * runner.vocab_size, tuple(case["eos"]))
    engine = Engine(runner, vocabulary)
    params = DecodingParams(max_tokens=case["n_new"], include_stop=True)
    search = Beam(
        width=case["width"],
        n_best=case["n_best"],
        alpha=case["alpha"],
        early_stopping=case["early_stopping"],
    )
    engine.add(Request(tuple(case["prompt"]), params, search=search))
    answers: dict[int, list] = {}
    while not engine.is_idle:
        for event in engine.step():
            answers.setdefault(event.branch, []).append(event)
    return [
        (tuple(i for event in events for i in event.token_ids), events[-1].score)
        for _, events in sorted(answers.items())
    ]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """[(transformers' model, our runner)] of tiny random models."""
    pairs = []
    for case in [case for case in HF_CASES if case.name in ("llama", "qwen2", "gemma3")]:
        folder = tmp_path_factory.mktemp(case.name)
        model = transformers_model(case, folder)
        source = open_weights(folder)
        pairs.append((model, reference_runner(source, 4096, row_exact=False)))
    return pairs


@pytest.mark.parametrize("part", range(8))
def test_tokens_and_scores_of_random_cases_are_those_of_transformers(part, models):
    for seed in range(part, N_CASES, 8):
        case = draw(np.random.default_rng(seed))
        model, runner = models[seed % len(models)]
        expected, found = theirs(model, case), ours(runner, case)
        assert [ids for ids, _ in found] == [ids for ids, _ in expected], (seed, case)
        assert [score for _, score in found] == pytest.approx([s for _, s in expected], abs=1e-4)


@pytest.mark.model
def test_a_real_model_s_tokens_and_scores_are_those_of_transformers(model_path):
    """SmolLM2 with both sides decoding the same blocks to float32. Ends are drawn from what is likely, so
    that hypotheses end."""
    from transformers import AutoModelForCausalLM

    path = model_path("smollm2-135m")
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    with open_weights(path) as source:
        runner = reference_runner(source, 1024, row_exact=False, keep_weights=True)
        for seed in range(N_REAL_CASES):
            rng = np.random.default_rng((1, seed))
            case = draw(rng) | {"prompt": rng.integers(1000, 20_000, 6).tolist(), "n_new": 3 + seed % 3}
            case["width"] = min(case["width"], 4)
            case["n_best"] = min(case["n_best"], case["width"])
            likely = np.argsort(-logits_whole(runner, case["prompt"])[-1])[:24]
            case["eos"] = sorted(rng.choice(likely, len(case["eos"]), replace=False).tolist())
            expected, found = theirs(model, case), ours(runner, case)
            assert [ids for ids, _ in found] == [ids for ids, _ in expected], (seed, case)
            # Per token: an exponent of -1 multiplies a sum by its length, and a difference of sums with it.
            for (ids, score), (_, wanted) in zip(found, expected, strict=True):
                assert score == pytest.approx(wanted, abs=1e-4 * max(1, len(ids) ** (1 - case["alpha"]))), (
                    seed
                )
